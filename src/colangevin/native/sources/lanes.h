/* Turning a square of numbers, so that its rows become columns: which lanes of two packs each round takes. */
#ifndef COLANGEVIN_LANES_H
#define COLANGEVIN_LANES_H

#ifndef __has_builtin
#define __has_builtin(name) 0
#endif

/* LOW_n_h and HIGH_n_h: for packs of n numbers, in the round that exchanges h apart */
#define LOW_16_8 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23
#define HIGH_16_8 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31
#define LOW_16_4 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27
#define HIGH_16_4 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31
#define LOW_16_2 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define HIGH_16_2 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#define LOW_16_1 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30
#define HIGH_16_1 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31

#define LOW_8_4 0, 1, 2, 3, 8, 9, 10, 11
#define HIGH_8_4 4, 5, 6, 7, 12, 13, 14, 15
#define LOW_8_2 0, 1, 8, 9, 4, 5, 12, 13
#define HIGH_8_2 2, 3, 10, 11, 6, 7, 14, 15
#define LOW_8_1 0, 8, 2, 10, 4, 12, 6, 14
#define HIGH_8_1 1, 9, 3, 11, 5, 13, 7, 15

/* Exchange, between the packs i and i + half of every pair, the lanes of which one has what the other wants. */
#define EXCHANGE(half, LOW, HIGH)                                  \
    for (int i = 0; i < NAME(WIDTH); i++)                          \
        if (!(i & (half))) {                                       \
            const NAME(pack) x = row[i], y = row[i + (half)];      \
            row[i] = __builtin_shufflevector(x, y, LOW);           \
            row[i + (half)] = __builtin_shufflevector(x, y, HIGH); \
        }

#endif
