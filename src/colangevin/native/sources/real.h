/* Everything that has a form for each type of REAL numbers. Before it is included, DOUBLE is 0 or 1. */

#if DOUBLE
#define REAL double
#define OTHER float
#define BITS uint64_t
#define NAME(name) name##_double
#define FEW(in_float, in_double) (in_double)
#define ABS fabs
#define SQRT sqrt
#else
#define REAL float
#define OTHER double
#define BITS uint32_t
#define NAME(name) name##_float
#define FEW(in_float, in_double) (in_float)
#define ABS fabsf
#define SQRT sqrtf
#endif

#include "functions.h"
#include "memory.h"
#include "noise.h"
#include "elementwise.h"
#include "spheres.h"

#undef REAL
#undef OTHER
#undef BITS
#undef NAME
#undef FEW
#undef ABS
#undef SQRT
#undef DOUBLE
