// The same primitives by the name of the C interface.
#pragma once
#include "cuda_pipeline.h"
