/* bfloat16 and float16, by whole numbers and without a branch. */
#ifndef COLANGEVIN_HALVES_H
#define COLANGEVIN_HALVES_H

#include "bits.h"

static inline float from_bfloat16(uint16_t half)
{
    return of_bits_float((uint32_t)half << 16);
}

/* The nearest, ties to even; NaN stays NaN. */
static inline uint16_t to_bfloat16(float x)
{
    uint32_t bits = bits_of_float(x);
    uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : rounded);
}

static inline float from_float16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = (uint32_t)(half & 0x7fff);
    /* exponent and fraction move to their places; the product corrects the exponent, also of subnormals */
    float size = of_bits_float(rest << 13) * 0x1p112f;
    uint32_t bits = rest >= 0x7c00 ? (rest << 13) | 0x7f800000 : bits_of_float(size);
    return of_bits_float(sign | bits);
}

/* The nearest, ties to even; beyond the largest it is infinite, NaN stays NaN. */
static inline uint16_t to_float16(float x)
{
    uint32_t bits = bits_of_float(x), sign = (bits >> 16) & 0x8000, size = bits & 0x7fffffff;
    /* Normal numbers lose 13 bits of their fraction; a carry goes into the exponent, as it should. */
    uint32_t normal = (size + 0xfff + ((size >> 13) & 1) - 0x38000000) >> 13;
    /* A sum with 1/2 leaves a subnormal in the last bits: their unit is 2^-24 there. */
    uint32_t subnormal = bits_of_float(of_bits_float(size < 0x38800000 ? size : 0) + 0.5f) - 0x3f000000;
    uint32_t half = size < 0x38800000 ? subnormal : normal;
    half = size >= 0x477ff000 ? 0x7c00 : half;
    half = size > 0x7f800000 ? 0x7e00 : half;
    return (uint16_t)(sign | half);
}

#endif
