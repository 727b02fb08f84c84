"""The whole graph through real langchain-openai, against a server that misbehaves in every way it can and still answers."""

import json
from pathlib import Path

import pytest
from pydantic import SecretStr
from tests.fakes.openai_server import HTML, Answer, failure, openai_server
from tests.integration.test_replay import RECORDING, REQUEST

from cuda_harness import Settings, generate
from cuda_harness.state.settings import ModelSettings

pytestmark = [pytest.mark.slow, pytest.mark.network]
PLANNER, REFERENCE, LOOPS, CODER = (json.loads(line)["reply"] for line in RECORDING.read_text().splitlines())


def settings(url: str) -> Settings:
    provider = ModelSettings(
        base_url=url, api_key=SecretStr("sk-local-not-a-real-key-1234"), timeout_s=5.0, retries=4
    )
    return Settings(provider=provider)


def test_malformed_replies_of_every_kind_end_in_a_verified_kernel(tmp_path: Path) -> None:
    old = '```cuda\nextern "C" __global__ void wave_step(float *p) { p[0] = 1; }  // BEFORE\n```\n'
    script = (
        failure(429, "slow down", retry_after="0"),
        failure(500, "oops"),
        Answer(""),  # empty: repair turn
        Answer(f"<think>```json\n{{}}\n```</think>\n{PLANNER}"),
        Answer(REFERENCE[: len(REFERENCE) // 2], finish_reason="length"),  # cut off: asked again, larger
        Answer(
            REFERENCE.replace("```python", "~~~py").replace(
                'return {"out": 2.0 * u - p + dt * dt * c2 * lap}\n```',
                'return {"out": 2.0 * u - p + dt * dt * c2 * lap}\n~~~',
            ),
            usage=None,
        ),
        Answer(LOOPS.replace("```python", "```")),
        Answer("I think the kernel is fine as it is."),  # no blocks: repair turn
        Answer(f"The old kernel was\n{old}Run it with\n```bash\nnvcc k.cu\n```\nFinal version:\n{CODER}"),
    )
    with openai_server(*script) as server:
        result = generate(
            REQUEST,
            model="openai:scripted",
            executor="cpu",
            out=tmp_path,
            settings=settings(server.url),
            seed=4,
        )

    assert result.status == "verified", result.stop
    assert len(result.document["attempts"]) == 1
    assert result.document["usage"]["input_tokens"] is None, "one reply had no usage: the sum is unknown"
    for path in result.run_dir.rglob("*"):
        if path.is_file() and path.suffix != ".sqlite":
            assert b"sk-local-not-a-real-key-1234" not in path.read_bytes(), path


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ((failure(401, "bad key"),), "usage"),
        ((HTML, HTML, HTML, HTML, HTML), "model_failed"),
        ((Answer("", refusal="I cannot help with that."),), "refused"),
        ((Answer("no json here"), Answer("still none")), "model_failed"),
    ],
    ids=["wrong key", "HTML", "refusal", "unusable twice"],
)
def test_an_endpoint_that_stays_broken_ends_the_run_in_order(
    tmp_path: Path, script: tuple[Answer, ...], reason: str
) -> None:
    from cuda_harness.state.errors import ConfigError

    with openai_server(*script) as server:
        if reason == "usage":
            with pytest.raises(ConfigError) as caught:
                generate(
                    REQUEST,
                    model="openai:scripted",
                    executor="cpu",
                    out=tmp_path,
                    settings=settings(server.url),
                    seed=4,
                )
            assert caught.value.remedy
            return
        result = generate(
            REQUEST,
            model="openai:scripted",
            executor="cpu",
            out=tmp_path,
            settings=settings(server.url),
            seed=4,
        )
    assert result.status == "failed"
    assert result.stop["reason"] == reason, result.stop
