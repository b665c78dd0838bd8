/* Two ranks measure each other: `pairs WHAT BYTES [SECONDS]`. Rank 0 prints numbers. Messages are of so many bytes.
 *
 * half    half a round trip, in microseconds
 * stream  what one sends the other, in MB/s
 * both    what both send each other at once, in MB/s, summed
 * rate    messages from one to the other, in 1/s
 * watch   both send each other, for so many seconds, two at a time: when each exchange ended, in ns of CLOCK_MONOTONIC
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WINDOW = 64, WATCHED_MAX = 1 << 20 };

static char *out, *in;
static int bytes, rank, other;

/* So many windows one way or both ways; a word back ends each. */
static void windows(int count, int depth, int both) {
    MPI_Request requests[2 * WINDOW];
    for (int window = 0; window < count; window++) {
        int open = 0;
        for (int i = 0; i < depth; i++) {
            if (both || rank == 1)
                MPI_Irecv(in, bytes, MPI_CHAR, other, 1, MPI_COMM_WORLD, &requests[open++]);
        }
        for (int i = 0; i < depth; i++) {
            if (both || rank == 0)
                MPI_Isend(out, bytes, MPI_CHAR, other, 1, MPI_COMM_WORLD, &requests[open++]);
        }
        MPI_Waitall(open, requests, MPI_STATUSES_IGNORE);
        if (both) continue;
        if (rank == 0)
            MPI_Recv(NULL, 0, MPI_CHAR, other, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            MPI_Send(NULL, 0, MPI_CHAR, other, 2, MPI_COMM_WORLD);
    }
}

static void round_trips(int count) {
    for (int i = 0; i < count; i++) {
        if (rank == 0) MPI_Send(out, bytes, MPI_CHAR, other, 1, MPI_COMM_WORLD);
        MPI_Recv(in, bytes, MPI_CHAR, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1) MPI_Send(out, bytes, MPI_CHAR, other, 1, MPI_COMM_WORLD);
    }
}

/* Messages in a window: no more than 64 MB, and 2 at least. */
static int depth_of(void) {
    int depth = WINDOW;
    while (depth > 2 && (long)depth * bytes > 64L << 20) depth /= 2;
    return depth;
}

static double streams(int both) {
    int depth = depth_of();
    int count = (int)((160L << 20) / ((long)depth * bytes));
    if (count < 2) count = 2;
    windows(1 + count / 8, depth, both);
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    windows(count, depth, both);
    double took_s = MPI_Wtime() - begin;
    return (both ? 2.0 : 1.0) * count * depth * bytes / 1e6 / took_s;
}

static double half_us(void) {
    int count = bytes > 4096 ? 500 : 5000;
    round_trips(count / 5);
    double begin = MPI_Wtime();
    round_trips(count);
    return (MPI_Wtime() - begin) * 1e6 / count / 2;
}

static double rate(void) {
    int count = 3000;
    windows(count / 10, WINDOW, 0);
    double begin = MPI_Wtime();
    windows(count, WINDOW, 0);
    return (double)count * WINDOW / (MPI_Wtime() - begin);
}

static long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

/* One way of one exchange; its number is in its first and last bytes. */
struct slot {
    char *out, *in;
    MPI_Request requests[2];
};

static void begin(struct slot *slot, int number) {
    memcpy(slot->out, &number, sizeof number);
    memcpy(slot->out + bytes - sizeof number, &number, sizeof number);
    MPI_Irecv(slot->in, bytes, MPI_CHAR, other, 1, MPI_COMM_WORLD, &slot->requests[0]);
    MPI_Isend(slot->out, bytes, MPI_CHAR, other, 1, MPI_COMM_WORLD, &slot->requests[1]);
}

static void end(struct slot *slot) {
    MPI_Waitall(2, slot->requests, MPI_STATUSES_IGNORE);
    if (memcmp(slot->in, slot->out, bytes)) {
        fprintf(stderr, "rank %d: wrong bytes\n", rank);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
}

static void watch(long lasting_ns) {
    struct slot slots[2];
    for (int i = 0; i < 2; i++) {
        slots[i].out = malloc(bytes), slots[i].in = malloc(bytes);
        memcpy(slots[i].out, out, bytes);
    }
    long *ended = malloc(WATCHED_MAX * sizeof *ended), until = now_ns() + lasting_ns;
    int count = 0, goes_on = 1;
    begin(&slots[0], 0);
    while (goes_on) {
        begin(&slots[(count + 1) % 2], count + 1);
        end(&slots[count % 2]);
        ended[count++] = now_ns();
        /* Both have to stop at the same one: rank 0 says so, once for many. */
        if (count % 16 == 0) {
            goes_on = ended[count - 1] < until && count < WATCHED_MAX - 16;
            MPI_Bcast(&goes_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
        }
    }
    end(&slots[count % 2]);
    for (int i = 0; rank == 0 && i < count; i++) printf("%ld\n", ended[i]);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc < 3) MPI_Abort(MPI_COMM_WORLD, 2);
    const char *what = argv[1];
    bytes = atoi(argv[2]);
    other = 1 - rank;
    out = malloc(bytes + 1), in = malloc(bytes + 1);
    for (int i = 0; i < bytes; i++) out[i] = (char)(i * 31 + i / 4096);
    memset(in, 0, bytes);
    if (!strcmp(what, "watch")) {
        if (argc < 4 || bytes < (int)sizeof(int)) MPI_Abort(MPI_COMM_WORLD, 2);
        watch((long)(atof(argv[3]) * 1e9));
        MPI_Finalize();
        return 0;
    }
    double figure = !strcmp(what, "half")     ? half_us()
                    : !strcmp(what, "stream") ? streams(0)
                    : !strcmp(what, "both")   ? streams(1)
                    : !strcmp(what, "rate")   ? rate()
                                              : -1;
    if (figure < 0) MPI_Abort(MPI_COMM_WORLD, 2);
    if (rank == 0) printf("%.3f\n", figure);
    MPI_Finalize();
    return 0;
}
