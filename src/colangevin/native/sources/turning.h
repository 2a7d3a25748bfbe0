/* Squares of numbers whose rows become columns. */

/* to[j * WIDTH + i] <- from[i * stride + j] for a square as wide as a pack. */
static inline void NAME(turn_square)(const REAL *RESTRICT from, int64_t stride, REAL *RESTRICT to)
{
#if __has_builtin(__builtin_shufflevector)
    NAME(pack) row[NAME(WIDTH)];
    for (int i = 0; i < NAME(WIDTH); i++)
        row[i] = NAME(load)(from + i * stride);
#if DOUBLE
    EXCHANGE(4, LOW_8_4, HIGH_8_4)
    EXCHANGE(2, LOW_8_2, HIGH_8_2)
    EXCHANGE(1, LOW_8_1, HIGH_8_1)
#else
    EXCHANGE(8, LOW_16_8, HIGH_16_8)
    EXCHANGE(4, LOW_16_4, HIGH_16_4)
    EXCHANGE(2, LOW_16_2, HIGH_16_2)
    EXCHANGE(1, LOW_16_1, HIGH_16_1)
#endif
    for (int i = 0; i < NAME(WIDTH); i++)
        NAME(store)(to + i * NAME(WIDTH), row[i]);
#else
    for (int i = 0; i < NAME(WIDTH); i++)
        for (int j = 0; j < NAME(WIDTH); j++)
            to[j * NAME(WIDTH) + i] = from[i * stride + j];
#endif
}

/* The same for a square of which only so many columns are there. */
static inline void NAME(turn_part)(const REAL *RESTRICT from, int64_t stride, int columns, REAL *RESTRICT to)
{
    if (columns == NAME(WIDTH)) {
        NAME(turn_square)(from, stride, to);
        return;
    }
    for (int j = 0; j < columns; j++)
        for (int i = 0; i < NAME(WIDTH); i++)
            to[j * NAME(WIDTH) + i] = from[i * stride + j];
}
