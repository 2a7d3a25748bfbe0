/* Sums of many numbers: fast, and exact enough that long rows keep their length. */
#ifndef COLANGEVIN_SUMS_H
#define COLANGEVIN_SUMS_H

enum { LANES = 64, TURNS = 32 }; /* partial sums, and how many numbers each of them takes before it is emptied */

/* Add up EXPRESSION for i < count: in LANES sums of at most TURNS numbers, and these in double. */
#define SUM(KIND, total, count, EXPRESSION)                                               \
    do {                                                                                  \
        int64_t i0_ = 0, n_ = (count);                                                    \
        double sum_ = 0;                                                                  \
        while (i0_ + LANES <= n_) {                                                       \
            KIND lane_[LANES] = {0};                                                      \
            for (int turn_ = 0; turn_ < TURNS && i0_ + LANES <= n_; turn_++, i0_ += LANES) \
                for (int j_ = 0; j_ < LANES; j_++) {                                      \
                    const int64_t i = i0_ + j_;                                           \
                    lane_[j_] += (EXPRESSION);                                            \
                }                                                                         \
            for (int half_ = LANES / 2; half_ > 4; half_ /= 2)                            \
                for (int j_ = 0; j_ < half_; j_++)                                        \
                    lane_[j_] += lane_[j_ + half_];                                       \
            sum_ += ((double)lane_[0] + lane_[1]) + ((double)lane_[2] + lane_[3])         \
                  + (((double)lane_[4] + lane_[5]) + ((double)lane_[6] + lane_[7]));      \
        }                                                                                 \
        for (int64_t i = i0_; i < n_; i++)                                                \
            sum_ += (double)(EXPRESSION);                                                 \
        (total) = sum_;                                                                   \
    } while (0)

#endif
