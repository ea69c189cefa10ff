// Of scores: their probabilities, and the gradients by the scores before the caller's functions.
FLEX_MODIFIED
scores_real score_gradient;
const scores_real probability = EXPONENTIAL(modified - REFERENCE);
const scores_real grad_score_mod = probability * (GET_SCORES(gradient_row) - COMMON);
FLEX_JOINT
PUT_SCORES(probability, score_row);
PUT_SCORES(seen ? score_gradient * SCALE : (scores_real)0, gradient_row);
