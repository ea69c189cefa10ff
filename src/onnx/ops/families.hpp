// The rows of every family of ONNX operators; one file each.
#pragma once

#include <span>
#include <vector>

#include "onnx/call.hpp"

namespace clprim::onnx {

std::span<const OperatorRow> math_operators();            // elementwise with broadcasting
std::span<const OperatorRow> cast_operators();            // changes of element type
std::span<const OperatorRow> reduce_operators();          // reductions, cumulative sums, softmax, top k
std::span<const OperatorRow> quantize_operators();        // to and from integers that stand for real numbers
std::span<const OperatorRow> quantized_product_operators();   // products of such integers
std::span<const OperatorRow> quantized_convolution_operators();
std::span<const OperatorRow> loss_operators();
std::span<const OperatorRow> random_operators();          // random numbers, dropout
std::span<const OperatorRow> training_operators();        // ai.onnx.preview.training
std::span<const OperatorRow> signal_operators();          // Fourier transforms, windows
std::span<const OperatorRow> text_operators();            // strings
std::span<const OperatorRow> ml_operators();              // ai.onnx.ml: encoders, scalers, linear models
std::span<const OperatorRow> map_operators();             // ai.onnx.ml: maps
std::span<const OperatorRow> tree_operators();            // ai.onnx.ml: trees
std::span<const OperatorRow> svm_operators();             // ai.onnx.ml: support vector machines
std::span<const OperatorRow> shape_operators();           // shapes, views
std::span<const OperatorRow> concatenate_operators();     // concatenation, splits
std::span<const OperatorRow> slice_operators();           // slices, borders, constants, ranges
std::span<const OperatorRow> index_operators();           // gather, scatter, nonzero, one-hot
std::span<const OperatorRow> unique_operators();
std::span<const OperatorRow> sequence_operators();        // sequences and optionals
std::span<const OperatorRow> control_flow_operators();    // If, Loop, Scan
std::span<const OperatorRow> convolution_operators();     // convolutions
std::span<const OperatorRow> pooling_operators();         // poolings
std::span<const OperatorRow> normalization_operators();   // batch, layer, group, ... normalisation
std::span<const OperatorRow> matmul_operators();          // MatMul, Gemm, Det
std::span<const OperatorRow> einsum_operators();          // Einsum
std::span<const OperatorRow> resize_operators();          // Resize, Upsample
std::span<const OperatorRow> sampling_operators();        // grids, blocks, crops
std::span<const OperatorRow> vision_operators();          // regions of interest, NonMaxSuppression
std::span<const OperatorRow> image_operators();           // files of images
std::span<const OperatorRow> recurrent_operators();       // RNN, GRU, LSTM
std::span<const OperatorRow> attention_operators();       // attention, rotary embedding
std::span<const OperatorRow> contrib_operators();         // com.microsoft: fused norms and activations
std::span<const OperatorRow> contrib_attention_operators();   // com.microsoft: attention with caches
std::span<const OperatorRow> contrib_group_query_operators();   // com.microsoft: grouped queries, rotary embedding
std::span<const OperatorRow> contrib_layer_operators();   // com.microsoft: embeddings, norms, channels-last images
std::span<const OperatorRow> contrib_block_operators();   // com.microsoft: products with block-quantised weights
std::span<const OperatorRow> contrib_fused_block_operators();   // com.microsoft: what is fused around them
std::span<const OperatorRow> contrib_float_block_operators();   // com.microsoft: products with narrow floats in blocks
std::span<const OperatorRow> contrib_gather_block_operators();   // com.microsoft: rows of block-quantised tables
std::span<const OperatorRow> contrib_name_operators();    // com.microsoft: what ONNX has under other names
std::span<const OperatorRow> contrib_quantized_operators();   // com.microsoft: quantised models
std::span<const OperatorRow> contrib_packed_operators();  // com.microsoft: batches without padding
std::span<const OperatorRow> contrib_expert_operators();  // com.microsoft: mixtures of experts
std::span<const OperatorRow> contrib_gate_operators();    // com.microsoft: gates, streams of hyper-connections
std::span<const OperatorRow> contrib_transform_operators();    // com.microsoft: transforms, rotations, crops
std::span<const OperatorRow> contrib_token_operators();   // com.microsoft: what the host does with tokens
std::span<const OperatorRow> contrib_ngram_operators();   // com.microsoft: hashes of n-grams
std::span<const OperatorRow> contrib_varlen_operators();  // com.microsoft: convolutions over packed batches
std::span<const OperatorRow> contrib_delta_net_operators();   // com.microsoft: delta networks over packed batches
std::span<const OperatorRow> contrib_packed_row_operators();   // com.microsoft: tables in the formats of GGUF
std::span<const OperatorRow> contrib_attention_lstm_operators();
std::span<const OperatorRow> generation_operators();      // com.microsoft: searches for text, a sequence a sample
std::span<const OperatorRow> beam_search_operators();     // and several

std::span<const OperatorRow> fused_operators();           // what Session's fusions make of elementwise chains
std::span<const OperatorRow> fused_attention_operators();     // and of attention
std::span<const OperatorRow> fused_rotary_operators();        // and of rotary embeddings
std::span<const OperatorRow> fused_moves_operators();         // and of copies

inline std::vector<std::span<const OperatorRow>> families()
{
    return {math_operators(), cast_operators(), reduce_operators(),
            quantize_operators(), quantized_product_operators(), quantized_convolution_operators(),
            loss_operators(), random_operators(),
            training_operators(), signal_operators(), text_operators(), ml_operators(), map_operators(),
            tree_operators(), svm_operators(),
            shape_operators(), concatenate_operators(), slice_operators(), index_operators(), unique_operators(),
            sequence_operators(), control_flow_operators(), fused_operators(), fused_attention_operators(),
            fused_rotary_operators(), fused_moves_operators(),
            convolution_operators(), pooling_operators(), normalization_operators(),
            matmul_operators(), einsum_operators(), resize_operators(), sampling_operators(),
            vision_operators(), image_operators(), recurrent_operators(), attention_operators(),
            contrib_operators(), contrib_attention_operators(), contrib_group_query_operators(),
            contrib_packed_row_operators(), contrib_attention_lstm_operators(),
            contrib_layer_operators(), contrib_block_operators(), contrib_name_operators(),
            contrib_quantized_operators(), contrib_packed_operators(), contrib_expert_operators(),
            contrib_gate_operators(), contrib_transform_operators(), contrib_token_operators(),
            contrib_ngram_operators(), contrib_varlen_operators(), generation_operators(),
            beam_search_operators(), contrib_gather_block_operators(),
            contrib_delta_net_operators(), contrib_fused_block_operators(), contrib_float_block_operators()};
}

}  // namespace clprim::onnx
