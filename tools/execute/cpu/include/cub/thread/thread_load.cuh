// See sim_warp.h.
#pragma once
#include "../sim_warp.h"
