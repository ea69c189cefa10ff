/* The model y = x + x, written out by hand. */
#ifndef TWICE_MODEL_H
#define TWICE_MODEL_H

/* ModelProto: ir_version 8; opset_import {version 17}; graph { Add(x, x) -> y; float x [n]; float y [n] }. */
static const unsigned char model[] = {
    0x08, 8, 0x42, 2, 0x10, 17, 0x3a, 53,
    0x0a, 14, 0x0a, 1, 'x', 0x0a, 1, 'x', 0x12, 1, 'y', 0x22, 3, 'A', 'd', 'd',
    0x12, 1, 'g',
    0x5a, 15, 0x0a, 1, 'x', 0x12, 10, 0x0a, 8, 0x08, 1, 0x12, 4, 0x0a, 2, 0x12, 0,
    0x62, 15, 0x0a, 1, 'y', 0x12, 10, 0x0a, 8, 0x08, 1, 0x12, 4, 0x0a, 2, 0x12, 0};

#endif
