/* MPI wire: rings of buffers, preposted for receiving. */
#include "runtime/parts/mpi/mpi_internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Maximum messages in flight per lane. Rows and answers are sent in pieces of DOP_WIRE_MOST. */
static const uint32_t depths[DOP_MPI_LANES] = {[DOP_LANE_ORDERS] = 16, [DOP_LANE_ROWS] = 16, [DOP_LANE_ANSWERS] = 4};

static dop_status
fail_mpi(int code, const char *what, dop_diag *diag)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int n = 0;
    (void)MPI_Error_string(code, text, &n);
    return DOP_FAIL(diag, DOP_E_DEVICE, "%s failed: %.300s", what, text);
}

/* Waits until a request is finished or a rank is lost. */
static dop_status
finish_request(dop_mpi *m, MPI_Request *request, MPI_Status *status, dop_diag *diag)
{
    for (uint64_t looks = 0;; looks++) {
        int done = 0, code = MPI_Test(request, &done, status);
        if (code != MPI_SUCCESS)
            return fail_mpi(code, "MPI_Test", diag);
        if (done)
            return DOP_OK;
        if (atomic_load(&m->failed))
            return DOP_FAIL(diag, m->code, "%s", m->why);
        dop_mpi_rest(m, looks);
    }
}

static dop_status
mpi_send(void *user, uint32_t to, dop_wire_lane lane, const void *bytes, size_t size, dop_diag *diag)
{
    dop_mpi *m = user;
    dop_mpi_ring *r = &m->out[to][lane];
    if (lane == DOP_LANE_ROWS && m->rows_out && size <= DOP_WIRE_MOST)
        return dop_mpi_window_send(m, bytes, size, diag);
    if (r->depth == 0 || size > r->most)
        return DOP_FAIL(diag, DOP_E_INTERNAL, "%zu bytes to rank %u, lane %d", size, to, lane);
    MPI_Request *request = &r->requests[r->next];
    uint8_t *buffer = r->buffers + r->next * r->most;
    dop_status st = finish_request(m, request, MPI_STATUS_IGNORE, diag);
    if (st != DOP_OK)
        return st;
    r->next = (r->next + 1) % r->depth;
    memcpy(buffer, bytes, size);
    int code = MPI_Isend(buffer, (int)size, MPI_BYTE, (int)to, (int)lane, m->lanes, request);
    return code == MPI_SUCCESS ? DOP_OK : fail_mpi(code, "MPI_Isend", diag);
}

static dop_status
mpi_receive(void *user, uint32_t from, dop_wire_lane lane, dop_diag *diag, const uint8_t **out_bytes, size_t *out_size)
{
    dop_mpi *m = user;
    dop_mpi_ring *r = &m->in[from][lane];
    MPI_Status status;
    int n = 0, code = MPI_SUCCESS;
    if (lane == DOP_LANE_ROWS && m->rows_in)
        return dop_mpi_window_receive(m, diag, out_bytes, out_size);
    if (r->depth == 0)
        return DOP_FAIL(diag, DOP_E_INTERNAL, "nothing comes from rank %u, lane %d", from, lane);
    if (r->held != UINT32_MAX && (code = MPI_Start(&r->requests[r->held])) != MPI_SUCCESS)
        return fail_mpi(code, "MPI_Start", diag);
    r->held = UINT32_MAX;
    dop_status st = finish_request(m, &r->requests[r->next], &status, diag);
    if (st != DOP_OK)
        return st;
    (void)MPI_Get_count(&status, MPI_BYTE, &n);
    *out_bytes = r->buffers + r->next * r->most;
    *out_size = (size_t)n;
    r->held = r->next;
    r->next = (r->next + 1) % r->depth;
    return DOP_OK;
}

/* Polls the request without completing it; mpi_receive does that. */
static bool
mpi_ready(void *user, uint32_t from, dop_wire_lane lane)
{
    dop_mpi *m = user;
    dop_mpi_ring *r = &m->in[from][lane];
    int done = 0;
    if (lane == DOP_LANE_ROWS && m->rows_in && !atomic_load(&m->failed))
        return dop_mpi_window_ready(m);
    if (r->depth == 0 || atomic_load(&m->failed))
        return true;
    return MPI_Request_get_status(r->requests[r->next], &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done;
}

/* Stores the reason for the watch to send, because this thread is about to end. */
static void
mpi_fail(void *user, const dop_diag *diag)
{
    dop_mpi *m = user;
    if (atomic_load(&m->failed)) /* the failure came from another rank, and the others know of it */
        return;
    m->sign = (dop_mpi_sign){.word = DOP_MPI_FAILED, .code = diag->code};
    snprintf(m->sign.text, sizeof m->sign.text, "%.300s%s%.600s", diag->path, diag->path[0] ? ": " : "", diag->message);
    atomic_store(&m->has_sign, true);
}

static void
mpi_describe(void *user, uint32_t rank, char *out, size_t cap)
{
    const dop_mpi *m = user;
    snprintf(out, cap, "rank %u on %s", rank, m->places[rank].host);
}

/* --- start and end --------------------------------------------------------------------------------------------------- */

static dop_status
make_ring(dop_mpi *m, dop_mpi_ring *r, uint32_t lane, int from, dop_diag *diag)
{
    r->depth = depths[lane];
    r->most = DOP_WIRE_MOST;
    r->held = UINT32_MAX;
    r->buffers = aligned_alloc(4096, r->depth * r->most); /* untouched pages cost no memory */
    r->requests = calloc(r->depth, sizeof(MPI_Request));
    if (!r->buffers || !r->requests) {
        r->depth = 0;
        return DOP_NO_MEMORY(diag);
    }
    for (uint32_t i = 0; i < r->depth; i++)
        r->requests[i] = MPI_REQUEST_NULL;
    for (uint32_t i = 0; i < r->depth && from >= 0; i++) {
        int code =
            MPI_Recv_init(r->buffers + i * r->most, (int)r->most, MPI_BYTE, from, (int)lane, m->lanes, &r->requests[i]);
        if (code != MPI_SUCCESS || (code = MPI_Start(&r->requests[i])) != MPI_SUCCESS)
            return fail_mpi(code, "MPI_Recv_init", diag);
    }
    return DOP_OK;
}

static dop_status
make_rings(dop_mpi *m, dop_diag *diag)
{
    const uint32_t rank = m->wire.rank, n = m->wire.n;
    dop_status st = DOP_OK;
    m->out = calloc(n, sizeof *m->out);
    m->in = calloc(n, sizeof *m->in);
    if (!m->out || !m->in)
        return DOP_NO_MEMORY(diag);
    for (uint32_t i = 1; i < n && rank == 0 && st == DOP_OK; i++) {
        st = make_ring(m, &m->out[i][DOP_LANE_ORDERS], DOP_LANE_ORDERS, -1, diag);
        if (st == DOP_OK)
            st = make_ring(m, &m->in[i][DOP_LANE_ANSWERS], DOP_LANE_ANSWERS, (int)i, diag);
    }
    if (rank > 0 && (st = make_ring(m, &m->in[0][DOP_LANE_ORDERS], DOP_LANE_ORDERS, 0, diag)) == DOP_OK &&
        (st = make_ring(m, &m->out[0][DOP_LANE_ANSWERS], DOP_LANE_ANSWERS, -1, diag)) == DOP_OK && !m->rows_in)
        st = make_ring(m, &m->in[rank - 1][DOP_LANE_ROWS], DOP_LANE_ROWS, (int)rank - 1, diag);
    if (rank + 1 < n && st == DOP_OK && !m->rows_out)
        st = make_ring(m, &m->out[rank + 1][DOP_LANE_ROWS], DOP_LANE_ROWS, -1, diag);
    return st;
}

static void
finish_ring(dop_mpi_ring *r, bool receives)
{
    for (uint32_t i = 0; i < r->depth; i++) {
        if (receives && i != r->held && r->requests[i] != MPI_REQUEST_NULL) {
            (void)MPI_Cancel(&r->requests[i]);
            (void)MPI_Wait(&r->requests[i], MPI_STATUS_IGNORE);
        }
        if (!receives)
            (void)MPI_Wait(&r->requests[i], MPI_STATUS_IGNORE);
        else if (r->requests[i] != MPI_REQUEST_NULL)
            (void)MPI_Request_free(&r->requests[i]);
    }
    free(r->buffers);
    free(r->requests);
}

/* Finds the host of each rank, and whether this host has enough processors for its ranks. */
static dop_status
find_places(dop_mpi *m, dop_diag *diag)
{
    int local = 0, n_local = 1, n = 0;
    char name[MPI_MAX_PROCESSOR_NAME] = "";
    dop_mpi_place own = {.pid = getpid()};
    m->places = calloc(m->wire.n, sizeof *m->places);
    if (!m->places)
        return DOP_NO_MEMORY(diag);
    (void)MPI_Get_processor_name(name, &n);
    snprintf(own.host, sizeof own.host, "%.63s", name);
    snprintf(m->wire.name, sizeof m->wire.name, "%s", own.host);
    int code = MPI_Allgather(&own, sizeof own, MPI_BYTE, m->places, sizeof own, MPI_BYTE, m->lanes);
    if (code == MPI_SUCCESS)
        code = MPI_Comm_split_type(m->lanes, MPI_COMM_TYPE_SHARED, (int)m->wire.rank, MPI_INFO_NULL, &m->host);
    if (code != MPI_SUCCESS)
        return fail_mpi(code, "MPI_Allgather", diag);
    (void)MPI_Comm_rank(m->host, &local);
    (void)MPI_Comm_size(m->host, &n_local);
    m->wire.local = (uint32_t)local;
    m->wire.crowded = 4L * n_local > sysconf(_SC_NPROCESSORS_ONLN);
    return DOP_OK;
}

dop_status
dop_mpi_start(const dop_mpi_options *options, dop_diag *diag, dop_mpi **out_mpi)
{
    int provided = 0, rank = 0, n = 1, code;
    *out_mpi = NULL;
    dop_mpi *m = calloc(1, sizeof *m);
    if (!m)
        return DOP_NO_MEMORY(diag);
    if ((code = MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided)) != MPI_SUCCESS) {
        free(m);
        return fail_mpi(code, "MPI_Init_thread", diag);
    }
    *out_mpi = m;
    m->window = MPI_WIN_NULL;
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &n);
    m->wire = (dop_wire){.rank = (uint32_t)rank,
                         .n = (uint32_t)n,
                         .user = m,
                         .send = mpi_send,
                         .receive = mpi_receive,
                         .ready = mpi_ready,
                         .fail = mpi_fail,
                         .describe = mpi_describe};
    m->silence_ms = (options && options->silence_s > 0 ? options->silence_s : 6) * 1e3;
    if (provided < MPI_THREAD_MULTIPLE)
        return DOP_FAIL(diag, DOP_E_DEVICE,
                        "this MPI does not let two threads call it: use one built with "
                        "MPI_THREAD_MULTIPLE");
    if ((code = MPI_Comm_dup(MPI_COMM_WORLD, &m->lanes)) != MPI_SUCCESS ||
        (code = MPI_Comm_dup(MPI_COMM_WORLD, &m->watching)) != MPI_SUCCESS)
        return fail_mpi(code, "MPI_Comm_dup", diag);
    (void)MPI_Comm_set_errhandler(m->lanes, MPI_ERRORS_RETURN);
    (void)MPI_Comm_set_errhandler(m->watching, MPI_ERRORS_RETURN);
    dop_status st = find_places(m, diag);
    if (st == DOP_OK && !(options && options->messages))
        dop_mpi_window_make(m);
    if (st == DOP_OK && (st = make_rings(m, diag)) == DOP_OK)
        st = dop_mpi_watch_start(m, diag);
    return st;
}

const dop_wire *
dop_mpi_wire(const dop_mpi *mpi)
{
    return &mpi->wire;
}

void
dop_mpi_end(dop_mpi *mpi, dop_status st)
{
    dop_mpi *m = mpi;
    if (!m)
        return;
    dop_mpi_watch_end(m);
    if (atomic_load(&m->silent) || !m->started) {
        (void)fflush(NULL);
        if (m->started && m->wire.rank > 0) /* rank 0, which normally reports a loss, is lost */
            dop_mpi_watch_say(m);
        (void)MPI_Abort(MPI_COMM_WORLD, st == DOP_OK ? 1 : (int)st);
        _exit(1);
    }
    for (uint32_t i = 0; i < m->wire.n; i++)
        for (uint32_t l = 0; l < DOP_MPI_LANES; l++) {
            finish_ring(&m->out[i][l], false);
            finish_ring(&m->in[i][l], true);
        }
    dop_mpi_window_free(m);
    (void)MPI_Comm_free(&m->host);
    (void)MPI_Comm_free(&m->lanes);
    (void)MPI_Comm_free(&m->watching);
    (void)MPI_Finalize();
    free(m->out);
    free(m->in);
    free(m->peers);
    free(m->places);
    free(m);
}

const dop_mpi_module dop_mpi_entry = {dop_mpi_start, dop_mpi_wire, dop_mpi_end};
