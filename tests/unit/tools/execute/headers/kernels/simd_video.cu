// SIMD in a word, all families: add, sub, averages, min, max, absolute differences, comparisons, sums, in bytes and halves.
extern "C" __global__ void simd_video(const unsigned* a, const unsigned* b, unsigned* bytes, unsigned* halves, int* dots) {
    int t = threadIdx.x, n = 0, m = 0;
    unsigned p = a[t], q = b[t];
    auto byte = [&](unsigned v) { bytes[32 * n++ + t] = v; };
    auto half = [&](unsigned v) { halves[32 * m++ + t] = v; };
    byte(__vadd4(p, q)); byte(__vsub4(p, q)); byte(__vaddss4(p, q)); byte(__vsubss4(p, q)); byte(__vaddus4(p, q)); byte(__vsubus4(p, q));
    byte(__vavgs4(p, q)); byte(__vavgu4(p, q)); byte(__vhaddu4(p, q)); byte(__vmins4(p, q)); byte(__vminu4(p, q)); byte(__vmaxs4(p, q));
    byte(__vmaxu4(p, q)); byte(__vabs4(p)); byte(__vabsss4(p)); byte(__vneg4(p)); byte(__vnegss4(p)); byte(__vabsdiffs4(p, q));
    byte(__vabsdiffu4(p, q)); byte(__vsadu4(p, q)); byte(__vsads4(p, q)); byte(__vcmpeq4(p, q)); byte(__vcmpgts4(p, q)); byte(__vcmpleu4(p, q));
    byte(__vseteq4(p, p)); byte(__vsetgtu4(p, q));
    half(__vadd2(p, q)); half(__vsub2(p, q)); half(__vaddss2(p, q)); half(__vsubus2(p, q)); half(__vavgu2(p, q)); half(__vmins2(p, q));
    half(__vmaxu2(p, q)); half(__vabs2(p)); half(__vabsdiffu2(p, q)); half(__vsadu2(p, q)); half(__vcmpltu2(p, q)); half(__vsetges2(p, q));
    dots[t] = __dp4a((int)p, (int)q, 5); dots[32 + t] = (int)__dp4a(p, q, 5u); dots[64 + t] = __dp2a_lo((int)p, (int)q, 5);
    dots[96 + t] = (int)__dp2a_hi(p, q, 5u); dots[128 + t] = (int)__sad((int)p, (int)q, 3u); dots[160 + t] = (int)__usad(p, q, 3u);
    dots[192 + t] = __mulhi((int)p, (int)q); dots[224 + t] = __mul24((int)p, (int)q); dots[256 + t] = (int)__uhadd(p, q);
    dots[288 + t] = __rhadd((int)p, (int)q); dots[320 + t] = __ffsll((long long)p << 7); dots[352 + t] = __popcll((unsigned long long)p << 20 | q);
    dots[384 + t] = __clzll((long long)p); dots[416 + t] = (int)(__brevll(p) >> 32); dots[448 + t] = (int)__umul24(p, q);
    dots[480 + t] = (int)(__umul64hi((unsigned long long)p << 32, (unsigned long long)q << 32));
    dots[512 + t] = (int)__funnelshift_r(p, q, t); dots[544 + t] = (int)__funnelshift_lc(p, q, 40); dots[576 + t] = (int)__fns(p, 0, 3);
}
