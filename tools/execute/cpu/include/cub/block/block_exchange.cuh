// See sim_sort.h.
#pragma once
#include "../sim_sort.h"
