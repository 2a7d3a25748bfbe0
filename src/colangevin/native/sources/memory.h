/* Reading and writing numbers of any type as REAL, a block at a time. */

/* A block of numbers as REAL: where they lie, if that is their type, or a copy in buffer. */
static inline const REAL *NAME(read)(const void *from, int type, int64_t start, int count, REAL *buffer)
{
    if (type == FEW(FLOAT32, FLOAT64))
        return (const REAL *)from + start;
    if (type == BFLOAT16) {
        const uint16_t *at = (const uint16_t *)from + start;
        for (int i = 0; i < count; i++)
            buffer[i] = (REAL)from_bfloat16(at[i]);
    } else if (type == FLOAT16) {
        const uint16_t *at = (const uint16_t *)from + start;
        for (int i = 0; i < count; i++)
            buffer[i] = (REAL)from_float16(at[i]);
    } else {
        const OTHER *at = (const OTHER *)from + start;
        for (int i = 0; i < count; i++)
            buffer[i] = (REAL)at[i];
    }
    return buffer;
}

/* Write a block of numbers. Weights are of the state's type, or half of float. */
static inline void NAME(write)(void *to, int type, int64_t start, int count, const REAL *numbers)
{
    if (type == BFLOAT16) {
        uint16_t *at = (uint16_t *)to + start;
        for (int i = 0; i < count; i++)
            at[i] = to_bfloat16((float)numbers[i]);
    } else if (type == FLOAT16) {
        uint16_t *at = (uint16_t *)to + start;
        for (int i = 0; i < count; i++)
            at[i] = to_float16((float)numbers[i]);
    } else {
        memcpy((REAL *)to + start, numbers, (size_t)count * sizeof(REAL));
    }
}
