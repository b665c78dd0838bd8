/* One rank is killed while every other one waits for a message of it: `killed FILE`. Each other one adds a line to the file: after
 * how many ms that was an error, and what is wrong if it was none. (What a rank prints before it ends may be lost where
 * another one was killed.)
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static double now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

int main(int argc, char **argv) {
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    FILE *told = argc == 2 ? fopen(argv[1], "a") : NULL;
    if (!told) MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int *all = calloc(ranks, sizeof *all), victim = ranks - 1;
    MPI_Alltoall(MPI_IN_PLACE, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
    /* All processes have one clock. Nobody waits for anything else any more when it is time. */
    double at_ms = now_ms() + 2000;
    MPI_Bcast(&at_ms, 1, MPI_DOUBLE, victim, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == victim) {
        while (now_ms() < at_ms) usleep(1000);
        kill(getpid(), SIGKILL);
    }
    int word, failed = MPI_Recv(&word, 1, MPI_INT, victim, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    fprintf(told, "%.0f%s\n", now_ms() - at_ms, failed == MPI_SUCCESS ? " and it was no error" : "");
    fclose(told);
    /* MPI_Finalize would wait for the one that is gone. */
    _exit(0);
}
