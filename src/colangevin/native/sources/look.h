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

/* Fold words into a checksum, a lane each: the change of any one word shows, and so does their order. A product carries a
 * change upwards only, so that those of two signs would cancel: half of a word is brought down first. */
static inline __attribute__((always_inline)) void fold(
    uint32_t *RESTRICT lane, const unsigned char *RESTRICT bytes, const int words)
{
    for (int j = 0; j < words; j++) {
        uint32_t word;
        memcpy(&word, bytes + 4 * j, sizeof word);
        lane[j] = lane[j] * 0x9E3779B1u + (word ^ word >> 15);
    }
}

/* A large weight is sampled: the first SAMPLE of every SAMPLED_FROM elements, and the end. */
enum { SAMPLE = 32, SAMPLED_FROM = 256 };

/* Fold pairs of samples, whose lanes do not wait for one another; returns where they end. */
static inline __attribute__((always_inline)) const unsigned char *fold_samples(
    uint32_t *RESTRICT lane, const unsigned char *RESTRICT bytes, const unsigned char *end, const int size)
{
    const int words = SAMPLE * size / 4, stride = SAMPLED_FROM * size;
    for (; end - bytes >= 2 * stride; bytes += 2 * stride) {
        fold(lane, bytes, words);
        fold(lane + words, bytes + stride, words);
    }
    return bytes;
}

/* Ask memory for what the checksum of a stretch reads, far enough ahead that nothing waits for it. */
static inline __attribute__((always_inline)) void ask_for_samples(const struct weight *w, int64_t start, int64_t stop)
{
    if (w->form != LINE && w->sampled)
        for (; start < stop; start += SAMPLED_FROM)
            ask_for(w->weight, w->weight_type, start, SAMPLE);
}

/* The checksum of a stretch of a weight. */
static uint64_t checksum(const struct weight *w, int64_t start, int64_t stop)
{
    if (w->form == LINE)
        return 0;
    const int64_t size = size_of(w->weight_type);
    const unsigned char *bytes = (const unsigned char *)w->weight + size * start, *end = bytes + size * (stop - start);
    uint32_t lane[2 * LANES] = {0};
    if (w->sampled)
        bytes = size == 8   ? fold_samples(lane, bytes, end, 8)
                : size == 4 ? fold_samples(lane, bytes, end, 4)
                            : fold_samples(lane, bytes, end, 2);
    for (; end - bytes >= 4 * LANES; bytes += 4 * LANES)
        fold(lane, bytes, LANES);
    const int left = (int)(end - bytes) / 4;
    for (int j = 0; j < left; j++, bytes += 4)
        fold(lane + j, bytes, 1);
    for (int half = LANES; half > 1; half /= 2)
        for (int j = 0; j < half; j++)
            lane[j] = lane[j] * 0x9E3779B1u + lane[j + half];
    uint64_t sum = ((uint64_t)start * FIRST_MULTIPLIER + lane[0]) * FIRST_MULTIPLIER + lane[1];
    for (; bytes < end; bytes++) /* half a word */
        sum = sum * FIRST_MULTIPLIER + *bytes;
    return sum;
}
