/* Waits within a product region: the epilogue of one segment reads whole rows that another segment computes. */
#include "ir/region/region.h"

#include "ir/graph/access.h"

bool
dop_region_part_is_awaited(const dop_region *r, uint32_t part)
{
    const dop_product_facts *p = &r->info->product;
    bool is = false;
    for (uint32_t i = 0; i < p->n_awaited; i++)
        is = is || dop_region_part(r, p->awaited[i]) == part;
    return is;
}

/* True if the segment computes a value from node number `at` of the region without reading whole rows of it. */
static bool
feeds_segment(const dop_graph *g, const dop_region *r, uint32_t part, uint32_t at)
{
    bool reaches = r->info->product.part_of[at] == part;
    for (uint32_t i = at + 1; i < r->n_nodes && !reaches; i++)
        for (uint32_t k = 0; k < dop_node_at(g, r->nodes[i])->n_srcs && !reaches; k++)
            reaches = dop_node_base(g, dop_node_at(g, r->nodes[i])->src[k], NULL) == r->nodes[at] &&
                      !dop_node_reads_rows(g, r->nodes[i], k) && feeds_segment(g, r, part, i);
    return reaches;
}

bool
dop_region_part_waits(const dop_graph *g, const dop_region *r, uint32_t part)
{
    bool waits = false;
    for (uint32_t i = 0; i < r->n_nodes && r->info->product.n_awaited && !waits; i++)
        for (uint32_t k = 0; k < dop_node_at(g, r->nodes[i])->n_srcs && !waits; k++)
            waits = dop_node_reads_rows(g, r->nodes[i], k) &&
                    dop_region_awaits(r, dop_node_base(g, dop_node_at(g, r->nodes[i])->src[k], NULL)) &&
                    feeds_segment(g, r, part, i);
    return waits;
}
