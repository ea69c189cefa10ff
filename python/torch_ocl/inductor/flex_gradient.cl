// Of a score: its probability, and the gradient by the score before the caller's function.
FLEX_MODIFIED
REAL score_gradient;
const REAL lse = FLEX_LSE[pair * QUERIES + m];
const REAL probability = seen && lse != (REAL)-INFINITY ? exp(modified - lse / LOG2E) : (REAL)0;
const REAL grad_score_mod = probability * (products[r][c] - (REAL)FLEX_DELTA[pair * QUERIES + m]);
FLEX_JOINT
