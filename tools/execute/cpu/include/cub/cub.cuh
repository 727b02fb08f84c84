// Everything of CUB that this executor has: the block- and warp-wide primitives.
#pragma once
#include "sim_block.h"
#include "sim_sort.h"
#include "sim_warp.h"
