/* What a job costs before it does anything: `start [IDLE-SECONDS]`. Every rank sends every other one 8 bytes, all at once; then all are
 * idle. Rank 0 prints three numbers: when the exchange was over, in ns of CLOCK_BOOTTIME; descriptors of a process, the
 * most of any rank; KB of memory that each peer costs a rank, the most of any rank, after the idle time.
 */
#include <dirent.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int descriptors(void) {
    DIR *all = opendir("/proc/self/fd");
    int count = 0;
    while (all && readdir(all)) count++;
    if (all) closedir(all);
    /* Without the directory itself, `.` and `..`. */
    return count - 3;
}

/* Of memory that processes share, each has its part. */
static long memory_kb(void) {
    FILE *all = fopen("/proc/self/smaps_rollup", "r");
    char line[256];
    long kb = -1;
    while (all && fgets(line, sizeof line, all)) sscanf(line, "Pss: %ld kB", &kb);
    if (all) fclose(all);
    return kb;
}

static long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

int main(int argc, char **argv) {
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    long *out = calloc(ranks, sizeof *out), *in = calloc(ranks, sizeof *in);
    MPI_Request *all = calloc(2 * ranks, sizeof *all);
    for (int i = 0; i < ranks; i++) out[i] = (long)rank << 32 | i;
    long before_kb = memory_kb();
    for (int i = 0; i < ranks; i++) {
        MPI_Irecv(&in[i], 1, MPI_LONG, i, 1, MPI_COMM_WORLD, &all[i]);
        MPI_Isend(&out[i], 1, MPI_LONG, i, 1, MPI_COMM_WORLD, &all[ranks + i]);
    }
    MPI_Waitall(2 * ranks, all, MPI_STATUSES_IGNORE);
    long done_ns = now_ns(), last_ns;
    for (int i = 0; i < ranks; i++) {
        if (in[i] == ((long)i << 32 | rank)) continue;
        fprintf(stderr, "rank %d: wrong: what rank %d sent\n", rank, i);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Reduce(&done_ns, &last_ns, 1, MPI_LONG, MPI_MAX, 0, MPI_COMM_WORLD);
    if (argc > 1) sleep(atoi(argv[1]));
    double own[2] = {descriptors(), (double)(memory_kb() - before_kb) / (ranks - 1)}, most[2];
    MPI_Reduce(own, most, 2, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("%ld %.0f %.1f\n", last_ns, most[0], most[1]);
    MPI_Finalize();
    return 0;
}
