import json

import pytest

from cuda_harness.tools.trace.redact import MASK, MAX_ITEMS, MAX_TEXT, Redactor, cut


@pytest.mark.parametrize(
    "secret",
    [
        "sk-abcdefghijklmnopqrstuvwx",
        "lsv2_pt_0123456789abcdef0123",
        "hf_abcdefghijklmnopqrstu",
        "AKIAABCDEFGHIJKLMNOP",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc-DEF_123",
    ],
)
def test_known_key_shapes_are_masked_wherever_they_stand(secret: str) -> None:
    shown = json.dumps(Redactor().value({"a": [f"before {secret} after"], "error": secret}))
    assert secret not in shown
    assert "before" in shown
    assert "after" in shown


def test_names_that_mean_a_secret_are_masked_and_token_counts_are_not() -> None:
    shown = Redactor().value(
        {"api_key": "x", "Authorization": "y", "input_tokens": 7, "max_tokens": 9, "password": ""}
    )
    assert shown == {
        "api_key": MASK,
        "Authorization": MASK,
        "input_tokens": 7,
        "max_tokens": 9,
        "password": "",
    }


def test_own_secrets_and_patterns() -> None:
    clean = Redactor([r"project-\d+"], secrets=["tell-no-one"])
    assert (
        clean.text("project-42 tell-no-one http://user:pass1234@host/")
        == f"{MASK} {MASK} http://{MASK}@host/"
    )


def test_ordinary_kernel_text_stays() -> None:
    source = "task_index = blockIdx.x * blockDim.x; // sk-ip the tail; bearer of news"
    assert Redactor().text(source) == source


def test_values_are_bounded_and_json() -> None:
    loop: list[object] = []
    loop.append(loop)
    big = Redactor().value(
        {"text": "a" * (10 * MAX_TEXT), "list": list(range(10_000)), "raw": b"12", "loop": loop, "o": {1, 2}}
    )
    assert len(big["text"]) <= MAX_TEXT
    assert len(big["list"]) == MAX_ITEMS
    assert big["raw"] == "[2 bytes]"
    json.dumps(big)


def test_cut_keeps_head_and_tail() -> None:
    shown = cut("h" * 500 + "t" * 500, 200)
    assert shown.startswith("h")
    assert shown.endswith("t")
    assert "left out" in shown
    assert cut("short", 200) == "short"
