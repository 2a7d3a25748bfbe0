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

/* Fold words into a checksum that tells their values and their order: the change of any one word shows. */
static inline uint64_t fold(uint64_t sum, const unsigned char *bytes, int64_t count)
{
    uint32_t lane[LANES] = {0};
    int64_t at = 0;
    for (; at + 4 * LANES <= count; at += 4 * LANES)
        for (int j = 0; j < LANES; j++) {
            uint32_t word;
            memcpy(&word, bytes + at + 4 * j, sizeof word);
            lane[j] = lane[j] * 0x9E3779B1u + word;
        }
    for (int j = 0; j < LANES; j++)
        sum = sum * FIRST_MULTIPLIER + lane[j];
    for (; at < count; at++)
        sum = sum * FIRST_MULTIPLIER + bytes[at];
    return sum;
}

/* The checksum of a stretch of a weight. A large circle weight is sampled: 32 of every 256 elements. */
static uint64_t checksum(const struct weight *w, int64_t start, int64_t stop)
{
    const int64_t size = w->weight_type == FLOAT64 ? 8 : w->weight_type == FLOAT32 ? 4 : 2;
    const unsigned char *bytes = (const unsigned char *)w->weight;
    if (w->form == LINE)
        return 0;
    if (!w->sampled)
        return fold((uint64_t)start, bytes + size * start, size * (stop - start));
    uint64_t sum = (uint64_t)start;
    for (int64_t at = start; at < stop; at += 256)
        sum = fold(sum, bytes + size * at, size * (stop - at < 32 ? stop - at : 32));
    return sum;
}
