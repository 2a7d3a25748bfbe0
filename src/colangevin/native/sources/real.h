/* Everything that has a form for each type of REAL numbers. Before it is included, DOUBLE is 0 or 1. */

#if DOUBLE
#define REAL double
#define OTHER float
#define BITS uint64_t
#define NAME(name) name##_double
#define FEW(in_float, in_double) (in_double)
#define ABS fabs
#define SQRT sqrt
#define FUSED __builtin_fma
#else
#define REAL float
#define OTHER double
#define BITS uint32_t
#define NAME(name) name##_float
#define FEW(in_float, in_double) (in_float)
#define ABS fabsf
#define SQRT sqrtf
#define FUSED __builtin_fmaf
#endif

/* a b + c, rounded once where the processor can do that. The compiler may do so elsewhere too, but where this is written
 * it has no choice: free steps are those of torch.optim.SGD bit for bit. */
#ifdef __FMA__
#define FMA(a, b, c) FUSED((a), (b), (c))
#else
#define FMA(a, b, c) ((a) * (b) + (c))
#endif

#include "functions.h"
#include "memory.h"
#include "noise.h"
#include "elementwise.h"
#include "packs.h"
#include "spheres.h"
#include "adam.h"
#include "levels.h"
#include "forms.h"
#include "turning.h"
#include "products.h"
#include "matrices.h"
#include "frames.h"

#undef REAL
#undef OTHER
#undef BITS
#undef NAME
#undef FEW
#undef ABS
#undef SQRT
#undef FUSED
#undef FMA
#undef DOUBLE
