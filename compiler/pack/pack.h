/* Converts the weights that a set of graphs needs to the layout that kernels read: converted, padded, and placed in
 * segments that each fit one device allocation. */
#ifndef DOPPLER_COMPILER_PACK_PACK_H
#define DOPPLER_COMPILER_PACK_PACK_H

#include "base/storage/packing.h"
#include "frontend/facts/arch.h"
#include "frontend/facts/lookup.h"
#include "ir/graph/graph.h"

typedef struct dop_packed {
    const char *name; /* name of the weight leaves that read it, for messages */
    dop_origin from;
    dop_type type; /* storage type in the plan */
    uint32_t rows, cols;
    uint32_t experts;   /* number of consecutive rows x cols matrices; 1 unless the weight has rank 3 */
    uint64_t row_bytes; /* bytes of a packed row, including padding */
    uint32_t segment;
    uint64_t offset;          /* byte offset in the segment, aligned to 256 */
    uint64_t size;            /* bytes of the matrices of all experts */
    uint64_t expert_stride;   /* bytes from one expert's matrix to the next, aligned to 256; 0 if the rank is below 3 */
    const dop_weight *source; /* the model's weight; NULL: a table computed by the compiler */
    bool joined;              /* placed in the segment of the previous item if it fits */
} dop_packed;

enum { DOP_MAX_SEGMENTS = 1024 };

typedef struct dop_pack {
    const dop_checkpoint *model;
    uint32_t ctx;                      /* number of positions of rotary and temperature tables */
    uint32_t threads;                  /* threads that write a weight; 0: one per core */
    const struct dop_imatrix *imatrix; /* importance matrix for quantization; NULL: none */
    uint32_t n, cap;
    dop_packed *items; /* owned; in order of first use by the graphs */
    dop_lookup by_origin;
    uint32_t n_segments;
    uint64_t segment_size[DOP_MAX_SEGMENTS];
} dop_pack;

void dop_pack_init(dop_pack *p, const dop_checkpoint *model, uint32_t ctx);
void dop_pack_finish(dop_pack *p);
/* Adds an item for every weight leaf of the graph with a new origin. */
dop_status dop_pack_add_graph(dop_pack *p, const dop_graph *g, dop_diag *diag);
/* Places the matrices that one region reads, and all items between them, in one segment. For targets where a dispatch
 * reads them through one view (base/caps.h). */
void dop_pack_join(dop_pack *p, const dop_graph *g);
/* Assigns segments and offsets; no tensor crosses a segment boundary. Segments are far smaller than max_segment, the
 * limit of one allocation, so that the runtime can allocate one segment while it copies another. */
dop_status dop_pack_layout(dop_pack *p, uint64_t max_segment, dop_diag *diag);
/* Returns the rows of one piece when a weight of this type and shape is split into nearly equal pieces that fit
 * segments of max_segment bytes. Returns 0 if the whole weight fits, or if not even one row does. */
uint32_t dop_pack_piece_rows(dop_type type, const dop_shape *shape, uint64_t max_segment);
const dop_packed *dop_pack_find(const dop_pack *p, const dop_origin *from);
/* Form in which the model's file contains a packed weight. BYTES: exactly as kernels read it, matrix by matrix. BLOCKS:
 * as contiguous blocks that only have to be repacked. dop_pack_stored() returns the file's bytes of one expert (0
 * without experts). */
typedef enum dop_stored { DOP_STORED_NOT, DOP_STORED_BYTES, DOP_STORED_BLOCKS } dop_stored;
dop_stored dop_pack_stored_as(const dop_packed *item);
const uint8_t *dop_pack_stored(const dop_packed *item, uint32_t expert);
/* Writes the codebook of an expert's matrix: dop_type_of(item->type)->pack.book bytes. */
void dop_pack_book(const dop_packed *item, uint32_t expert, uint8_t *out);
/* Return the bytes of one packed matrix (item->size without experts), and its planes. */
uint64_t dop_pack_matrix_bytes(const dop_packed *item);
dop_planes dop_pack_planes(const dop_packed *item);
/* Writes the bytes of a packed tensor to out[item->size]. */
dop_status dop_pack_write(const dop_pack *p, const dop_packed *item, uint8_t *out, dop_diag *diag);

#endif
