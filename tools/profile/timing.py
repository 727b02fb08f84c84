"""How long a verified kernel takes on a GPU, by the whole protocol, or the reason why that is not known."""

from cuda_harness.tools.profile.ceilings import ceilings
from cuda_harness.tools.profile.session import Contender, Session, Timed, measure

__all__ = ["Contender", "Session", "Timed", "ceilings", "measure"]
