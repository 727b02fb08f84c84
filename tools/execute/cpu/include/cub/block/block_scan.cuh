// See sim_block.h.
#pragma once
#include "../sim_block.h"
