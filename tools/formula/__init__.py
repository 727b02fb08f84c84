"""The formula language of an IR's steps: statements with explicit indices.

    statement  := NAME [ "[" index ("," index)* "]" ] "=" expr
    expr       := test [ "?" expr ":" expr | "if" expr "else" expr ]
    test       := sum [ ("<" | "<=" | ">" | ">=" | "==" | "!=") sum ]
    sum        := product (("+" | "-") product)*
    product    := signed (("*" | "/") signed)*
    signed     := ("-" | "+") signed | power
    power      := atom [ ("^" | "**") signed ]
    atom       := NUMBER | NAME | NAME "[" expr ("," expr)* "]" | FUNCTION "(" expr ("," expr)* ")" | "(" expr ")"
                | "|" expr "|" | REDUCER "_" vars product
    REDUCER    := sum mean prod max min argmax argmin
    vars       := LETTER | "{" VAR ("," VAR)* "}" | "{" VAR ("<" | "<=") VAR "}"

A reduction takes the whole product that follows it: `sum_k a[i,k]*b[k,j] + c[j]` adds `c[j]` once. `sum_{k<=j}` is a
running sum. An index variable runs over the axis in which it stands; a bare name is a scalar, a dim, or an index.
"""
