// A score after the caller's functions, and whether it is seen. Outside, they are computed for the last row and key.
const int m = (int)min(i0 + ROW, (long)QUERIES - 1), n = (int)min(j0 + KEY, (long)KEY_COUNT - 1);
const REAL score = values[r][c] * SCALE;
REAL modified;
int seen = inside;
FLEX_SCORE
if (kind == 0) {
    FLEX_MASK
}
