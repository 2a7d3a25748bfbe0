/* What Python hands to the library: tables.py has the same structures. */
#ifndef COLANGEVIN_JOB_H
#define COLANGEVIN_JOB_H

#include <stdint.h>

enum { MOST_LETTERS = 64 };

/* how a number is stored */
enum type { FLOAT32, FLOAT64, BFLOAT16, FLOAT16 };

/* which manifold a weight lies on */
enum form { LINE, CIRCLE, SQUARE, SPHERE, SIMPLEX, LEVEL, FRAME };

/* places of the numbers of Adam's step */
enum adam_number { RATE, DECAY, FIRST_BETA, SECOND_BETA, EPS };

/* One segment of a step: its letters with their numbers, the overdamped step, or Adam's. */
struct program {
    int32_t letters;            /* how many; 0 for the overdamped step and for Adam's */
    int32_t adam;               /* whether it is Adam's */
    int32_t noisy;
    int32_t segment;            /* of the step: a word of the noise */
    int32_t completes;          /* whether a step ends with this segment */
    char letter[MOST_LETTERS];  /* 'A', 'B' or 'O' */
    double number[MOST_LETTERS]; /* a, b or the decay c; h of the overdamped step; Adam's numbers */
    double scale[MOST_LETTERS];  /* d of an O; sigma of the overdamped step */
};

/* Which elements of a whole a part of it has: element i is first + i / length * stride + i % length there. */
struct window {
    int64_t first;
    int64_t length;             /* at least 1; that of the part if it is in one piece */
    int64_t stride;
};

/* One copy of a parameter. */
struct weight {
    void *weight;
    const void *gradient;
    void *momentum;             /* of the state's type, as position; NULL without one */
    void *position;             /* NULL where the weight itself is the position */
    void *second;               /* Adam's average of squares, as position; NULL without one */
    int64_t *step;              /* the step count, which all copies share */
    const void *radii;          /* of the state's type, one an element or a row; NULL for one radius */
    const struct program *program;
    int64_t elements;
    int64_t rows;               /* of rows that move alone or of a matrix: rows, and entries of a row of the weight; */
    int64_t entries;            /* of the former also the distance of two rows of the state */
    int64_t stride;
    double radius;              /* of a level: the mean of its rows; of a matrix: its singular values */
    double decay;               /* weight decay that is a part of the gradient */
    double bound;               /* on the norm of the gradient: a larger one is looked at by the host */
    uint64_t seed;
    uint64_t word;              /* of the noise: the parameter's, and the number of the copy */
    uint64_t copy;
    uint64_t left;              /* checksum of the weight after the last step */
    int64_t first_unit;         /* of work */
    struct window window;       /* of a part of a weight or a matrix of it, for its noise; of whole rows where these move alone */
    int32_t form;
    int32_t slack;              /* whether a row of the position has one entry more than one of the weight */
    int32_t weight_type;
    int32_t gradient_type;
    int32_t state_type;
    int32_t maximize;
    int32_t counts;             /* whether it is the copy that counts the steps of its parameter */
    int32_t doubtful;           /* found by look: a gradient that is not finite, or too large */
    int32_t edited;             /* found by look: a weight that is not what the last step left */
    int32_t sampled;            /* whether the checksum leaves out most of the weight */
    int32_t shared;             /* found by plan: a matrix so large that all threads work at it together */
    int32_t rounds;             /* found by move: iterations for the multipliers of a matrix */
    int32_t polar;              /* found by move: how many drifts of a matrix took the polar factor instead */
    int32_t left_out;           /* found by move: a matrix that the host has to move */
};

/* What is known of one unit of work. */
struct finding {
    double squares;             /* of the gradient */
    uint64_t checksum;          /* of the weight */
};

struct job {
    struct weight **weights;
    struct finding *findings;   /* one a unit */
    void *room;                 /* memory for a row or for a matrix */
    int64_t room_bytes;         /* found by plan: of one thread */
    int64_t whole_room_bytes;   /* found by plan: of all threads together */
    int64_t count;              /* of weights */
    int64_t units;
    int64_t threads;
};

#endif
