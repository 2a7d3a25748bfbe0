/* The numbers of a matrix's step. REAL is the type at hand where they are used. */
#ifndef COLANGEVIN_LIMITS_H
#define COLANGEVIN_LIMITS_H

/* Tiles of a product: as many sums as leave registers for a row of B and a number of A. */
#if defined(__AVX512F__)
enum { TILE_ROWS = 8, TILE_VECTORS = 3 };
#else
enum { TILE_ROWS = 6, TILE_VECTORS = 2 };
#endif
/* Of B where it is not packed: a part of the second-level cache. */
enum { NEAR_BYTES = 1 << 16 };
/* Rows of B that are packed at a time, of how many bytes: half of a second-level cache. Blocks of a product for each thread:
 * one that is late finds less left to do. */
enum { DEPTH = 256, PACKED_BYTES = 1 << 19, BLOCKS_EACH = 2 };

/* As multipliers.py has them: when the iteration has converged, and when it is given up. */
enum { TRIALS = 24, ITERATIONS = 80 };
#define NEARLY ((REAL)1e-4)
#define PROGRESS ((REAL)0.9)
#define TOLERANCE ((REAL)8 * FEW(1.1920929e-07f, 2.220446049250313e-16))
/* Half products up to which a series of the multipliers is shorter than the iteration, and the norm of E up to which it is so
 * short that the norm need not be known better. */
enum { SERIES = 4 };
#define SHORT_SERIES ((REAL)0.001)
/* A normal part of a step of this size is projected away first: it costs (1 + |Z|)^2 of the precision. */
#define NORMAL ((REAL)0.5)
/* Multipliers up to which an error of Q cannot grow much before it is looked at. */
#define SAFE ((REAL)0.3)
/* Largest error of a result that was looked at and is left as it is. */
#define RESULT ((REAL)0.75 * TOLERANCE)
/* Eigenvalues of E up to which a polar factor is computed here: it costs some digits, and a correction each. */
#define MODERATE ((REAL)16)
/* The shortest time that a drift takes. */
#define LEAST FEW(1.17549435e-38f, 2.2250738585072014e-308)
enum { LOOK_EVERY = 8, LARGE_ROOMS = 3, SQUARE_ROOMS = 8 };

#endif
