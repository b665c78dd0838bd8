/* Two ranks measure each other: `pairs WHAT BYTES`. Rank 0 prints one number. Messages are of so many bytes.
 *
 * half    half a round trip, in microseconds
 * stream  what one sends the other, in MB/s
 * both    what both send each other at once, in MB/s, summed
 * rate    messages from one to the other, in 1/s
 * stall   both send each other, for STALL_S seconds: the longest exchange, in ms; then how many there were
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 64, STALL_S = 6 };

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

static double stall_ms(int *exchanges) {
    double begin = MPI_Wtime(), before = begin, longest_s = 0;
    int goes_on = 1;
    for (*exchanges = 0; goes_on; ++*exchanges) {
        MPI_Sendrecv(out, bytes, MPI_CHAR, other, 1, in, bytes, MPI_CHAR, other, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        if (memcmp(in, out, bytes)) MPI_Abort(MPI_COMM_WORLD, 2);
        double now = MPI_Wtime();
        if (now - before > longest_s) longest_s = now - before;
        before = now;
        /* Both have to stop at the same one. */
        goes_on = rank == 0 && now - begin < STALL_S;
        MPI_Bcast(&goes_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    return longest_s * 1e3;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc != 3) MPI_Abort(MPI_COMM_WORLD, 2);
    const char *what = argv[1];
    bytes = atoi(argv[2]);
    other = 1 - rank;
    out = malloc(bytes + 1), in = malloc(bytes + 1);
    for (int i = 0; i < bytes; i++) out[i] = (char)(i * 31 + i / 4096);
    memset(in, 0, bytes);
    int exchanges = 0;
    double figure = !strcmp(what, "half")     ? half_us()
                    : !strcmp(what, "stream") ? streams(0)
                    : !strcmp(what, "both")   ? streams(1)
                    : !strcmp(what, "rate")   ? rate()
                    : !strcmp(what, "stall")  ? stall_ms(&exchanges)
                                              : -1;
    if (figure < 0) MPI_Abort(MPI_COMM_WORLD, 2);
    if (rank == 0) printf("%.3f %d\n", figure, exchanges);
    MPI_Finalize();
    return 0;
}
