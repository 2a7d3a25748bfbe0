/* What is looked at before a step: the size of gradients, and whether others wrote a weight. */

/* The sum of squares of a stretch of a gradient; not finite if one of its entries is not. */
static double squares(const struct weight *w, int64_t start, int64_t stop)
{
    double total = 0;
    for (int64_t at = start; at < stop; at += LANES * TURNS) {
        const int count = stop - at < LANES * TURNS ? (int)(stop - at) : LANES * TURNS;
        double part;
        if (w->gradient_type == FLOAT64) {
            const double *g = (const double *)w->gradient + at;
            SUM(double, part, count, g[i] * g[i]);
        } else {
            float room[LANES * TURNS];
            const float *g = read_float(w->gradient, w->gradient_type, at, count, room);
            SUM(float, part, count, g[i] * g[i]);
        }
        total += part;
    }
    return total;
}

/* Fold words into a checksum, a lane each: the change of any one word shows, and so does their order. */
static inline void fold(uint32_t *RESTRICT lane, const unsigned char *RESTRICT bytes, int words)
{
    for (int j = 0; j < words; j++) {
        uint32_t word;
        memcpy(&word, bytes + 4 * j, sizeof word);
        lane[j] = lane[j] * 0x9E3779B1u + word;
    }
}

/* The checksum of a stretch of a weight. A large weight is sampled: the first 32 of every 256 elements, and the end. */
static uint64_t checksum(const struct weight *w, int64_t start, int64_t stop)
{
    if (w->form == LINE)
        return 0;
    const int64_t size = w->weight_type == FLOAT64 ? 8 : w->weight_type == FLOAT32 ? 4 : 2;
    const unsigned char *bytes = (const unsigned char *)w->weight + size * start, *end = bytes + size * (stop - start);
    const int words = w->sampled ? (int)(8 * size) : LANES;
    const int64_t stride = w->sampled ? 256 * size : 4 * LANES;
    uint32_t lane[LANES] = {0};
    uint64_t sum = (uint64_t)start;
    for (; end - bytes >= stride; bytes += stride)
        fold(lane, bytes, words);
    for (; end - bytes >= 4 * LANES; bytes += 4 * LANES)
        fold(lane, bytes, LANES);
    const int left = (int)(end - bytes) / 4;
    fold(lane, bytes, left);
    for (int j = 0; j < LANES; j++)
        sum = sum * FIRST_MULTIPLIER + lane[j];
    for (bytes += 4 * left; bytes < end; bytes++) /* half a word */
        sum = sum * FIRST_MULTIPLIER + *bytes;
    return sum;
}
