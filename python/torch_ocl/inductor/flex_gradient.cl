// Of a score: its probability, and the gradient by the score before the caller's function.
const int m = (int)min(i0 + ROW, (long)QUERIES - 1), n = (int)min(j0 + KEY, (long)KEY_COUNT - 1);
const REAL score = values[r][c] * SCALE;
REAL modified, score_gradient;
int seen = inside;
FLEX_SCORE
if (kind == 0) {
    FLEX_MASK
}
const REAL lse = FLEX_LSE[pair * QUERIES + m];
const REAL probability = seen && lse != (REAL)-INFINITY ? exp(modified - lse / LOG2E) : (REAL)0;
const REAL grad_score_mod = probability * (products[r][c] - (REAL)FLEX_DELTA[pair * QUERIES + m]);
FLEX_JOINT
