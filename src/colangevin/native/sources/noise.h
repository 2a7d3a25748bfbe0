/* The noise of noise.py from the same bits. */


/* The standard normals 2i and 2i + 1 of a stream for counters i from first on. */
static inline void NAME(pairs)(uint64_t key, uint64_t first, int count, REAL *RESTRICT out)
{
    int32_t low[PAIRS], turn[PAIRS], quarters[PAIRS];
    REAL radius[PAIRS];
    const uint64_t second = mixed(key + INCREMENT);
    uint64_t counter = first * INCREMENT + key;
    for (int i = 0; i < count; i++, counter += INCREMENT) {
        uint64_t z = (counter ^ (counter >> 30)) * FIRST_MULTIPLIER + second;
        z = (z ^ (z >> 27)) * SECOND_MULTIPLIER;
        z ^= z >> 31;
        /* 32 bits are the angle in parts of a turn: the quarter that is nearest, and the rest */
        uint32_t shifted = (uint32_t)(z >> 32) + 0x20000000;
        low[i] = (int32_t)(z & 0x7fffffff);
        quarters[i] = (int32_t)(shifted >> 30);
        turn[i] = (int32_t)(shifted & 0x3fffffff) - 0x20000000;
    }
    /* Two loops, each with a shorter chain of results that wait for one another. */
    for (int i = 0; i < count; i++) {
        REAL square = NAME(twice_minus_log)((REAL)low[i] + (REAL)0.5, 31);
        radius[i] = SQRT(square > 0 ? square : 0);
    }
    for (int i = 0; i < count; i++) {
        REAL sine, cosine;
        NAME(both)((REAL)turn[i] * (REAL)1.462918079267159600919e-9, quarters[i], &sine, &cosine); /* 2 pi 2^-32 */
        out[2 * i] = radius[i] * cosine;
        out[2 * i + 1] = radius[i] * sine;
    }
}

/* The standard normals of a stream from number start on. */
static void NAME(normals)(uint64_t key, int64_t start, int64_t count, REAL *RESTRICT out)
{
    REAL made[2 * PAIRS];
    int64_t end = start + count;
    for (int64_t at = start & ~(int64_t)1; at < end; at += 2 * PAIRS) {
        int64_t pairs = (end - at + 1) / 2;
        pairs = pairs < PAIRS ? pairs : PAIRS;
        if (at >= start && at + 2 * pairs <= end) {
            NAME(pairs)(key, (uint64_t)at / 2, (int)pairs, out + (at - start));
        } else { /* a number before the first or after the last is made and dropped */
            NAME(pairs)(key, (uint64_t)at / 2, (int)pairs, made);
            int64_t from = at < start ? start : at, to = at + 2 * pairs < end ? at + 2 * pairs : end;
            memcpy(out + (from - start), made + (from - at), (size_t)(to - from) * sizeof(REAL));
        }
    }
}

/* The standard normals of a stream from number start of a part on. */
static void NAME(normals_of_part)(
    uint64_t key, const struct window *window, int64_t start, int64_t count, REAL *RESTRICT out)
{
    if (start + count <= window->length) { /* in the first run: most weights are whole, and a division is slow */
        NAME(normals)(key, window->first + start, count, out);
        return;
    }
    while (count > 0) {
        const int64_t before = start / window->length, into = start % window->length;
        const int64_t run = window->length - into < count ? window->length - into : count;
        NAME(normals)(key, window->first + before * window->stride + into, run, out);
        start += run;
        out += run;
        count -= run;
    }
}
