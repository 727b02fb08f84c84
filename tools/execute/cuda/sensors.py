"""What NVML says of a device while something is timed: clocks, temperature, power, and why clocks are held."""

import contextlib
import time
from typing import Any

_PAUSE_S = 0.1


class Sensors:
    """Reads NVML at most ten times a second; a reading that NVML refuses is absent, never invented."""

    def __init__(self, uuid: str) -> None:
        """Find the device; `uuid` as CUDA reports it, with or without its `GPU-` prefix."""
        self.readings: list[dict[str, Any]] = []
        self._last = 0.0
        self._nvml: Any = None
        self._handle: Any = None
        with contextlib.suppress(Exception):  # no NVML, or a device that it does not show: no readings
            from cuda.bindings import nvml

            nvml.init_v2()
            named = uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"
            self._handle = nvml.device_get_handle_by_uuid(named)
            self._nvml = nvml

    def read(self) -> dict[str, Any]:
        """Return the present readings: MHz, degrees Celsius, watts, and the bits of clock event reasons."""
        found: dict[str, Any] = {}
        nvml, handle = self._nvml, self._handle
        if nvml is None:
            return found
        with contextlib.suppress(Exception):
            found["sm_mhz"] = int(nvml.device_get_clock_info(handle, nvml.ClockType.CLOCK_SM))
        with contextlib.suppress(Exception):
            found["memory_mhz"] = int(nvml.device_get_clock_info(handle, nvml.ClockType.CLOCK_MEM))
        with contextlib.suppress(Exception):
            sensor = nvml.TemperatureSensors.TEMPERATURE_GPU
            found["temperature_c"] = int(nvml.device_get_temperature_v(handle, sensor))
        with contextlib.suppress(Exception):
            found["power_w"] = int(nvml.device_get_power_usage(handle)) / 1000.0
        with contextlib.suppress(Exception):
            found["reasons"] = int(nvml.device_get_current_clocks_event_reasons(handle))
        return found

    def sample(self) -> None:
        """Keep a reading, unless the last one is younger than a tenth of a second."""
        now = time.monotonic()
        if self._nvml is not None and now - self._last >= _PAUSE_S:
            self._last = now
            found = self.read()
            if found:
                self.readings.append(found)
