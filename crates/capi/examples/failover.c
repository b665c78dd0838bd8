/* Tells what happens to links and peers, and what a program notices of it: `failover FILE` on one
 * node, `failover FILE NODE` on another sends a message each millisecond, on two links each.
 * Both end with their standard input. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>
#include <time.h>

#include <tabane.h>

#define FLOW 1
/* A gap that is worth a line. */
#define GAP_MS 10
#define PATIENCE_MS 100

static atomic_bool is_over;

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, tabane_error());
    return EXIT_FAILURE;
}

static int wait_for_end(void *unused)
{
    (void)unused;
    while (getchar() != EOF)
        ;
    atomic_store(&is_over, 1);
    return 0;
}

static int tell_events(void *given)
{
    tabane_node *node = given;
    tabane_event event;
    while (!atomic_load(&is_over))
        if (tabane_next_event(node, PATIENCE_MS, &event) == 1) {
            puts(event.text);
            fflush(stdout);
        }
    return 0;
}

static int send(tabane_node *node, const char *peer)
{
    const struct timespec tick = {.tv_nsec = 1000000};
    uint64_t count = 0;
    while (!atomic_load(&is_over)) {
        if (tabane_send(node, peer, FLOW, NULL, &count, sizeof count, TABANE_MIRROR) < 0)
            return failed(peer);
        count++;
        thrd_sleep(&tick, NULL);
    }
    printf("sent %llu messages\n", (unsigned long long)count);
    return EXIT_SUCCESS;
}

static long long now_ms(void)
{
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

static int receive(tabane_node *node)
{
    uint64_t count = 0, number;
    tabane_message message;
    long long last = now_ms();
    while (!atomic_load(&is_over)) {
        int came = tabane_receive(node, PATIENCE_MS, &message, &number, sizeof number);
        if (came < 0)
            return failed("receive");
        if (came == 0)
            continue;
        if (message.bytes != sizeof number || number != count) {
            fprintf(stderr, "message %llu is missing\n", (unsigned long long)count);
            return EXIT_FAILURE;
        }
        long long now = now_ms();
        if (count > 0 && now - last > GAP_MS)
            printf("nothing for %lld ms\n", now - last);
        count++;
        last = now;
    }
    printf("received %llu messages in order\n", (unsigned long long)count);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    if (argc != 2 && argc != 3) {
        fputs("usage: failover FILE [NODE]\n", stderr);
        return EXIT_FAILURE;
    }
    tabane_options *options = tabane_options_from_file(argv[1], NULL);
    tabane_node *node = options ? tabane_open(options) : NULL;
    if (!node)
        return failed(argv[1]);
    puts("running");
    fflush(stdout);
    thrd_t input, events;
    if (thrd_create(&input, wait_for_end, NULL) != thrd_success ||
        thrd_create(&events, tell_events, node) != thrd_success) {
        fputs("no threads left\n", stderr);
        return EXIT_FAILURE;
    }
    int result = argc == 3 ? send(node, argv[2]) : receive(node);
    atomic_store(&is_over, 1);
    thrd_join(events, NULL);
    tabane_close(node);
    return result;
}
