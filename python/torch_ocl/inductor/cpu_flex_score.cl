// Scores after the caller's functions.
const scores_real score = GET_SCORES(score_row) * SCALE;
scores_real modified;
scores_integer seen = (scores_integer)(-1);
FLEX_SCORE
if (kind == 0) {
    FLEX_MASK
}
modified = seen ? modified : (scores_real)(-INFINITY);
