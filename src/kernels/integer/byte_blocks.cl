// Blocks of lines of bytes, as cpu_lines.cl packs them.
#define SIDE 32          // lines of a group
#define BLOCK 64         // of k
#define BLOCK_WORDS 512  // of SIDE lines
