"""Errors of the driver as answers: whose failure it is, and whether the context outlives it."""

from typing import Any

FAULTS: tuple[tuple[str, str], ...] = (
    ("ILLEGAL_ADDRESS", "out_of_bounds"),
    ("MISALIGNED_ADDRESS", "misaligned"),
    ("LAUNCH_TIMEOUT", "timeout"),
    ("LAUNCH_OUT_OF_RESOURCES", "launch_config"),
    ("COOPERATIVE_LAUNCH_TOO_LARGE", "launch_config"),
    ("INVALID_CLUSTER_SIZE", "launch_config"),
    ("INVALID_VALUE", "launch_config"),
    ("INVALID_CONFIGURATION", "launch_config"),
    ("ASSERT", "crash"),
    ("ILLEGAL_INSTRUCTION", "crash"),
    ("INVALID_ADDRESS_SPACE", "crash"),
    ("INVALID_PC", "crash"),
    ("HARDWARE_STACK_ERROR", "crash"),
    ("LAUNCH_FAILED", "crash"),
)
"""Part of a driver error's name -> class of the candidate's failure."""

_WRONG_CUBIN = (
    "NO_BINARY_FOR_GPU",
    "INVALID_IMAGE",
    "UNSUPPORTED_PTX",
    "INVALID_SOURCE",
    "DEVICE_NOT_LICENSED",
)


class Failed(Exception):  # noqa: N818 - carries an answer, not an error of ours
    """The job ends with this answer."""

    def __init__(self, answer: dict[str, Any]) -> None:
        super().__init__(answer.get("message", ""))
        self.answer = answer


def check(result: tuple[Any, ...], doing: str) -> Any:  # noqa: ANN401 - whatever the driver returns
    """Return the values of a driver call; a failed one raises `Failed` with its class."""
    code = result[0]
    if int(code) == 0:
        return result[1] if len(result) == 2 else result[1:]
    raise Failed(classify(code.name, doing))


def classify(name: str, doing: str) -> dict[str, Any]:
    """Return the answer for a driver error called `name` that came while `doing` something."""
    if "OUT_OF_MEMORY" in name:
        return {"status": "not_run", "reason": "resources", "message": f"{name} while {doing}"}
    for part, fault in FAULTS:
        if part in name:
            return {
                "status": "fault",
                "fault": fault,
                "message": f"{name} while {doing}",
                "evidence": {"code": name},
            }
    return environment(f"{name} while {doing}")


def fault(class_: str, message: str, **evidence: Any) -> dict[str, Any]:  # noqa: ANN401 - plain JSON values
    """Return the answer that the candidate is wrong."""
    return {"status": "fault", "fault": class_, "message": message, "evidence": evidence}


def environment(message: str) -> dict[str, Any]:
    """Return the answer that this machine could not run the job."""
    return {"status": "not_run", "reason": "environment", "message": message[:600]}


def loading_failed(error: str) -> dict[str, Any]:
    """Return the answer for a cubin that the driver did not load, or that lacks a kernel of the plan."""
    if any(part in error for part in _WRONG_CUBIN):
        return environment(f"the cubin was compiled for another architecture than this GPU's: {error[:300]}")
    if "NOT_FOUND" in error:
        return fault("launch_config", f"a kernel of the plan is not in the cubin: {error[:300]}")
    if "OUT_OF_MEMORY" in error:
        return {
            "status": "not_run",
            "reason": "resources",
            "message": f"no memory to load the cubin: {error[:300]}",
        }
    return environment(f"loading the cubin failed: {error[:300]}")


def start_failed(error: Exception, driver_version: int | None, wheels_major: int | None) -> dict[str, Any]:
    """Return why CUDA does not start, with what to do.

    Args:
        error: What importing cuda.core or making the context raised.
        driver_version: Highest CUDA version of the driver as 1000 major + 10 minor; `None`: no driver was found.
        wheels_major: Major CUDA version of the installed wheels; `None`: they are not installed.
    """
    text = f"{type(error).__name__}: {error}"
    if wheels_major is None:
        return {
            **environment(f"cuda.core is not installed: {text}"),
            "remedy": "pip install 'cuda-harness[cu13]' (or [cu12] for a driver of CUDA 12)",
        }
    if driver_version is None:
        return {
            **environment(f"no NVIDIA driver is found: {text}"),
            "remedy": "install the driver, or use --executor cpu",
        }
    told = f"{driver_version // 1000}.{driver_version % 1000 // 10}"
    if driver_version // 1000 < wheels_major or "INSUFFICIENT" in text or "DRIVER_MISMATCH" in text:
        return {
            **environment(
                f"the driver (CUDA {told}) is too old for the installed wheels (CUDA {wheels_major}): {text}"
            ),
            "remedy": f"pip install 'cuda-harness[cu{driver_version // 1000}]', or update the driver",
        }
    if "NO_DEVICE" in text or "INVALID_DEVICE" in text or "device_id" in text or "ordinal" in text:
        return {
            **environment(f"there is no such CUDA device: {text}"),
            "remedy": "see nvidia-smi -L and CUDA_VISIBLE_DEVICES; `cuda-harness doctor` lists devices",
        }
    if "OUT_OF_MEMORY" in text:
        return {
            **environment(f"the device has no memory left for a context: {text}"),
            "remedy": "end the processes that use it (nvidia-smi lists them), or take another device",
        }
    if "DEVICE_UNAVAILABLE" in text or "DEVICES_UNAVAILABLE" in text:
        return {
            **environment(f"the device is held exclusively by another process: {text}"),
            "remedy": "end that process, or take another device",
        }
    return {**environment(text), "remedy": "see `cuda-harness doctor`, or use --executor cpu"}
