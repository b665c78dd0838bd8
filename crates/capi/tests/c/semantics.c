/* semantics CASE PORT PORT: two nodes "a" and "b" at these ports, and what must hold of them.
 * Says what does not, and where, and ends with 1 then. */
#define _POSIX_C_SOURCE 200809L
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tabane.h>

#define SERVICE 1
/* Only ends a hang. */
#define LONG_MS 20000

#define CHECK(what)                                                                      \
    do {                                                                                 \
        if (!(what)) {                                                                   \
            fprintf(stderr, "line %d: %s (%s)\n", __LINE__, #what, tabane_error());       \
            exit(1);                                                                     \
        }                                                                                \
    } while (0)

static const uint8_t KEY[TABANE_KEY_BYTES] = {7};
static tabane_node *a, *b;
/* Theirs, as the command line has them. */
static char **ports;

static tabane_options *options_of(const char *name, const char *port, const char *peer,
                                  const char *peer_port)
{
    const char *links[] = {"127.0.0.1", NULL, "::1"};
    char first[32], third[32];
    snprintf(first, sizeof first, "127.0.0.1:%s", peer_port);
    snprintf(third, sizeof third, "[::1]:%s", peer_port);
    const char *addresses[] = {first, NULL, third};
    tabane_options *options = tabane_options_new(name, KEY, links, 3);
    CHECK(options);
    CHECK(tabane_options_port(options, (uint16_t)atoi(port)) == 0);
    CHECK(tabane_options_peer(options, peer, addresses, 3) == 0);
    /* Each has a key pair, and knows the public key of the other. */
    uint8_t mine[TABANE_KEY_BYTES] = {(uint8_t)name[0]};
    uint8_t theirs[TABANE_KEY_BYTES] = {(uint8_t)peer[0]};
    CHECK(tabane_options_private_key(options, mine) == 0);
    uint8_t public_key[TABANE_KEY_BYTES];
    CHECK(tabane_public_key(theirs, public_key) == 0);
    CHECK(tabane_options_peer_public(options, peer, public_key) == 0);
    return options;
}

static tabane_node *open_node(const char *name, const char *port, const char *peer,
                              const char *peer_port)
{
    tabane_node *node = tabane_open(options_of(name, port, peer, peer_port));
    CHECK(node);
    return node;
}

static int readable(int descriptor, int timeout_ms)
{
    struct pollfd fd = {.fd = descriptor, .events = POLLIN};
    CHECK(descriptor >= 0);
    return poll(&fd, 1, timeout_ms) == 1 && fd.revents == POLLIN;
}

static void pair(tabane_listener *listener, tabane_stream **near, tabane_stream **far)
{
    CHECK(tabane_connect(a, "b", SERVICE, LONG_MS, near) == 0);
    CHECK(tabane_accept(listener, LONG_MS, far) == 0);
    CHECK(strcmp(tabane_peer(*near), "b") == 0 && strcmp(tabane_peer(*far), "a") == 0);
}

static tabane_listener *listen_at_b(void)
{
    tabane_listener *listener;
    CHECK(tabane_listen(b, SERVICE, &listener) == 0);
    return listener;
}

static void case_fork(void)
{
    tabane_listener *listener = listen_at_b();
    tabane_stream *near, *far, *another;
    pair(listener, &near, &far);
    char buffer[8];
    tabane_event event;
    tabane_message message;
    tabane_path paths[TABANE_LINKS_MAX];
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(tabane_read(near, buffer, sizeof buffer) == TABANE_E_FORKED);
        CHECK(strstr(tabane_error(), "fork"));
        CHECK(tabane_write(near, "x", 1) == TABANE_E_FORKED);
        CHECK(tabane_finish(near) == TABANE_E_FORKED);
        CHECK(tabane_wait_finished(near, TABANE_FOREVER) == TABANE_E_FORKED);
        CHECK(tabane_read_descriptor(near) == TABANE_E_FORKED);
        CHECK(tabane_connect(a, "b", SERVICE, TABANE_FOREVER, &another) == TABANE_E_FORKED);
        CHECK(another == NULL);
        CHECK(tabane_accept(listener, TABANE_FOREVER, &another) == TABANE_E_FORKED);
        CHECK(tabane_send(a, "b", 1, NULL, "x", 1, TABANE_STRIPE) == TABANE_E_FORKED);
        CHECK(tabane_post(a, "b", 1, NULL, "x", 1, TABANE_STRIPE) == TABANE_E_FORKED);
        CHECK(tabane_flush(a) == TABANE_E_FORKED);
        CHECK(tabane_receive(a, TABANE_FOREVER, &message, buffer, 8) == TABANE_E_FORKED);
        CHECK(tabane_next_event(a, TABANE_FOREVER, &event) == TABANE_E_FORKED);
        CHECK(tabane_paths(a, "b", paths) == TABANE_E_FORKED);
        CHECK(tabane_shutdown(a) == TABANE_E_FORKED);
        tabane_stream_close(near);
        tabane_stream_close(far);
        tabane_listener_close(listener);
        tabane_close(a);
        tabane_close(b);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(tabane_write_all(near, "hello", 5) == 0);
    CHECK(tabane_read(far, buffer, sizeof buffer) == 5 && memcmp(buffer, "hello", 5) == 0);
    tabane_stream_close(near);
    tabane_stream_close(far);
    tabane_listener_close(listener);
}

static void case_poll(void)
{
    tabane_listener *listener = listen_at_b();
    tabane_stream *near[2], *far[2];
    struct pollfd fds[2];
    char buffer[8];
    for (int i = 0; i < 2; i++) {
        pair(listener, &near[i], &far[i]);
        CHECK(tabane_set_nonblocking(near[i], 1) == 0);
        fds[i].fd = tabane_read_descriptor(near[i]);
        fds[i].events = POLLIN;
        CHECK(fds[i].fd >= 0 && tabane_read_descriptor(near[i]) == fds[i].fd);
    }
    CHECK(poll(fds, 2, 0) == 0);
    for (int i = 1; i >= 0; i--) {
        CHECK(tabane_read(near[i], buffer, sizeof buffer) == TABANE_E_WOULD_BLOCK);
        CHECK(tabane_write_all(far[i], "hello", 5) == 0);
        CHECK(poll(fds, 2, LONG_MS) == 1);
        CHECK(fds[i].revents == POLLIN && fds[1 - i].revents == 0);
        /* As long as anything is left. */
        CHECK(tabane_read(near[i], buffer, 3) == 3 && memcmp(buffer, "hel", 3) == 0);
        CHECK(poll(fds, 2, 0) == 1);
        CHECK(tabane_read(near[i], buffer, 2) == 2 && memcmp(buffer, "lo", 2) == 0);
        CHECK(poll(fds, 2, 0) == 0);
    }
    /* The end, and a reset, are something to read. */
    CHECK(tabane_finish(far[0]) == 0);
    CHECK(readable(fds[0].fd, LONG_MS));
    CHECK(tabane_read(near[0], buffer, sizeof buffer) == 0);
    CHECK(readable(fds[0].fd, 0));
    CHECK(tabane_reset(far[1], 99) == 0);
    CHECK(readable(fds[1].fd, LONG_MS));
    CHECK(tabane_read(near[1], buffer, sizeof buffer) == TABANE_E_RESET);
    CHECK(strstr(tabane_error(), "99"));
    CHECK(readable(fds[1].fd, 0));
    for (int i = 0; i < 2; i++) {
        tabane_stream_close(near[i]);
        tabane_stream_close(far[i]);
    }
    tabane_listener_close(listener);
}

static void case_poll_others(void)
{
    static char buffer[64 * 1024];
    tabane_listener *listener = listen_at_b();
    tabane_stream *near, *far;
    int accepts = tabane_accept_descriptor(listener);
    CHECK(!readable(accepts, 0));
    CHECK(tabane_connect(a, "b", SERVICE, LONG_MS, &near) == 0);
    CHECK(readable(accepts, LONG_MS));
    CHECK(tabane_accept(listener, 0, &far) == 0);
    CHECK(!readable(accepts, 0));
    tabane_stream_close(far);
    CHECK(tabane_accept(listener, 0, &far) == TABANE_E_TIMED_OUT && far == NULL);

    /* Room to write: gone when a write finds too little, back when the reader has read. */
    tabane_stream_close(near);
    pair(listener, &near, &far);
    int room = tabane_write_descriptor(near);
    CHECK(readable(room, 0));
    CHECK(tabane_set_nonblocking(near, 1) == 0);
    size_t written = 0, got = 0;
    ssize_t bytes;
    while ((bytes = tabane_write(near, buffer, sizeof buffer)) > 0)
        written += (size_t)bytes;
    CHECK(bytes == TABANE_E_WOULD_BLOCK);
    /* Both ends hold something: what is written now may find room once more. */
    while (readable(room, 0))
        while ((bytes = tabane_write(near, buffer, sizeof buffer)) > 0)
            written += (size_t)bytes;
    while (got < written) {
        CHECK((bytes = tabane_read(far, buffer, sizeof buffer)) > 0);
        got += (size_t)bytes;
    }
    CHECK(readable(room, LONG_MS));
    CHECK(tabane_write(near, buffer, 1) == 1);

    /* Messages. */
    tabane_message message;
    int mail = tabane_receive_descriptor(b);
    CHECK(tabane_receive(b, 0, &message, buffer, sizeof buffer) == 0);
    CHECK(!readable(mail, 0));
    CHECK(tabane_send(a, "b", 1, NULL, "hello", 5, TABANE_AUTO) == 0);
    CHECK(readable(mail, LONG_MS));
    CHECK(tabane_receive(b, 0, &message, buffer, sizeof buffer) == 1 && message.bytes == 5);
    CHECK(tabane_receive(b, 0, &message, buffer, sizeof buffer) == 0);
    CHECK(!readable(mail, 0));

    /* Events. */
    tabane_event event;
    int events = tabane_event_descriptor(b);
    tabane_stream_close(near);
    tabane_close(a);
    a = NULL;
    do {
        CHECK(readable(events, LONG_MS));
        CHECK(tabane_next_event(b, 0, &event) == 1);
    } while (event.kind != TABANE_PEER_DOWN);
    CHECK(strcmp(event.peer, "a") == 0 && event.value == 1);
    CHECK(strcmp(event.text, "a is down: it stopped") == 0);
    tabane_stream_close(far);
    tabane_listener_close(listener);
}

static void case_ping_pong(void)
{
    tabane_listener *listener = listen_at_b();
    tabane_stream *ends[2];
    struct pollfd fds[2];
    pair(listener, &ends[0], &ends[1]);
    for (int i = 0; i < 2; i++) {
        CHECK(tabane_set_nonblocking(ends[i], 1) == 0);
        fds[i].fd = tabane_read_descriptor(ends[i]);
        fds[i].events = POLLIN;
    }
    uint32_t next = 0, number;
    CHECK(tabane_write(ends[0], &next, sizeof next) == sizeof next);
    while (next < 2000) {
        CHECK(poll(fds, 2, LONG_MS) == 1);
        int to = fds[1].revents != 0;
        CHECK(to == (next % 2 == 0));
        CHECK(tabane_read(ends[to], &number, sizeof number) == sizeof number);
        CHECK(number == next);
        next++;
        CHECK(tabane_write(ends[to], &next, sizeof next) == sizeof next);
    }
    tabane_stream_close(ends[0]);
    tabane_stream_close(ends[1]);
    tabane_listener_close(listener);
}

static void case_arguments(void)
{
    tabane_stream *stream;
    tabane_options *options = tabane_options_new("c", KEY, NULL, 0);
    const char *wrong[] = {"127.0.0.1"}, *many[] = {"127.0.0.1", "127.0.0.1"};
    CHECK(options);
    CHECK(!tabane_options_new(NULL, KEY, NULL, 0) && strstr(tabane_error(), "name is NULL"));
    CHECK(!tabane_options_new("\xff", KEY, NULL, 0) && strstr(tabane_error(), "UTF-8"));
    CHECK(!tabane_options_new("c", NULL, NULL, 0) && strstr(tabane_error(), "key is NULL"));
    CHECK(!tabane_options_new("c", KEY, NULL, 1) && strstr(tabane_error(), "is NULL"));
    CHECK(!tabane_options_new("c", KEY, wrong, (size_t)-1) && strstr(tabane_error(), "long"));
    CHECK(!tabane_options_from_file("/nowhere", NULL) && strstr(tabane_error(), "/nowhere"));
    CHECK(tabane_options_peer(options, "b", wrong, 1) == TABANE_E_ARGUMENT);
    CHECK(strstr(tabane_error(), "10.77.0.2:7577"));
    CHECK(tabane_options_port(NULL, 1) == TABANE_E_ARGUMENT);
    CHECK(!tabane_open(NULL) && strstr(tabane_error(), "options is NULL"));
    CHECK(tabane_options_private_key(options, NULL) == TABANE_E_ARGUMENT);
    CHECK(tabane_public_key(KEY, NULL) == TABANE_E_ARGUMENT);
    CHECK(tabane_options_peer_public(options, "z", KEY) == 0 && !tabane_open(options));
    CHECK(strstr(tabane_error(), "\"z\", which is no peer"));
    options = tabane_options_new("c", KEY, many, 2);
    CHECK(options && !tabane_open(options) && strstr(tabane_error(), "twice"));
    CHECK(tabane_connect(NULL, "b", SERVICE, 0, &stream) == TABANE_E_ARGUMENT && !stream);
    CHECK(tabane_connect(a, NULL, SERVICE, 0, &stream) == TABANE_E_ARGUMENT);
    CHECK(tabane_connect(a, "b", SERVICE, 0, NULL) == TABANE_E_ARGUMENT);
    CHECK(tabane_read(NULL, &stream, 1) == TABANE_E_ARGUMENT);
    CHECK(strcmp(tabane_error(), "stream is NULL") == 0);
    CHECK(strcmp(tabane_peer(NULL), "") == 0);
    CHECK(tabane_send(a, "b", 1, NULL, NULL, 1, TABANE_STRIPE) == TABANE_E_ARGUMENT);
    CHECK(tabane_send(a, "b", 1, NULL, "x", 1, 99) == TABANE_E_ARGUMENT);
    CHECK(strstr(tabane_error(), "99"));
    CHECK(tabane_next_event(a, 0, NULL) == TABANE_E_ARGUMENT);
    tabane_options_free(NULL);
    tabane_close(NULL);
    tabane_listener_close(NULL);
    tabane_stream_close(NULL);
}

static void case_failures(void)
{
    tabane_listener *listener = listen_at_b(), *another;
    tabane_stream *near, *far;
    char buffer[8];
    CHECK(tabane_listen(b, SERVICE, &another) == TABANE_E_IN_USE && another == NULL);
    CHECK(tabane_connect(a, "c", SERVICE, LONG_MS, &near) == TABANE_E_UNKNOWN_PEER);
    CHECK(tabane_connect(a, "b", 2, LONG_MS, &near) == TABANE_E_REFUSED);
    pair(listener, &near, &far);
    CHECK(tabane_set_policy(near, TABANE_MIRROR) == 0);
    CHECK(tabane_write_all(near, "x", 1) == 0 && tabane_finish(near) == 0);
    CHECK(tabane_write(near, "x", 1) == TABANE_E_PIPE);
    CHECK(tabane_wait_finished(near, LONG_MS) == 1);
    CHECK(tabane_read(far, buffer, sizeof buffer) == 1);
    CHECK(tabane_read(far, buffer, sizeof buffer) == 0);
    CHECK(tabane_wait_finished(far, 0) == 0);
    tabane_path paths[TABANE_LINKS_MAX];
    CHECK(tabane_paths(a, "b", paths) == 2);
    CHECK(paths[0].link == 0 && paths[1].link == 2 && paths[0].is_up);
    CHECK(tabane_paths(a, "c", paths) == TABANE_E_UNKNOWN_PEER);
    tabane_close(b);
    b = NULL;
    CHECK(tabane_write(far, "x", 1) == TABANE_E_CLOSED);
    tabane_stream_close(far);
    CHECK(tabane_accept(listener, LONG_MS, &far) == TABANE_E_CLOSED);
    CHECK(tabane_connect(a, "b", SERVICE, 0, &far) == TABANE_E_TIMED_OUT);
    tabane_stream_close(near);
    tabane_listener_close(listener);
}

static void case_messages(void)
{
    tabane_message message;
    char buffer[16];
    const uint64_t tag = 1ull << 60;
    CHECK(tabane_send(a, "b", 3, &tag, "hello, world", 12, TABANE_STRIPE) == 0);
    CHECK(tabane_send(a, "b", 3, NULL, "", 0, TABANE_STRIPE) == 0);
    for (int i = 0; i < 2; i++) {
        CHECK(tabane_receive(b, LONG_MS, &message, buffer, 5) == TABANE_E_TOO_LARGE);
        CHECK(message.bytes == 12 && strstr(tabane_error(), "12 bytes"));
    }
    CHECK(tabane_receive(b, LONG_MS, &message, buffer, message.bytes) == 1);
    CHECK(message.bytes == 12 && memcmp(buffer, "hello, world", 12) == 0);
    CHECK(strcmp(message.from, "a") == 0 && message.flow == 3);
    CHECK(message.has_tag == 1 && message.tag == tag);
    CHECK(tabane_receive(b, LONG_MS, &message, NULL, 0) == 1);
    CHECK(message.bytes == 0 && message.has_tag == 0);
    CHECK(tabane_receive(b, 0, &message, buffer, sizeof buffer) == 0);
    CHECK(tabane_post(a, "b", 3, &tag, "one", 3, TABANE_STRIPE) == 0);
    CHECK(tabane_post(a, "b", 3, NULL, "two", 3, TABANE_STRIPE) == 0);
    CHECK(tabane_flush(a) == 0);
    CHECK(tabane_receive(b, LONG_MS, &message, buffer, sizeof buffer) == 1);
    CHECK(message.has_tag == 1 && memcmp(buffer, "one", 3) == 0);
    CHECK(tabane_receive(b, LONG_MS, &message, buffer, sizeof buffer) == 1);
    CHECK(message.has_tag == 0 && memcmp(buffer, "two", 3) == 0);
    size_t longest = TABANE_MESSAGE_BYTES_MAX;
    char *large = calloc(1, longest + 1);
    CHECK(large);
    CHECK(tabane_send(a, "b", 3, &tag, large, longest + 1, TABANE_STRIPE) == TABANE_E_TOO_LARGE);
    CHECK(tabane_send(a, "b", 3, &tag, large, longest, TABANE_STRIPE) == 0);
    CHECK(tabane_receive(b, LONG_MS, &message, large, longest) == 1 && message.bytes == longest);
    free(large);
    CHECK(tabane_send(a, "c", 3, NULL, "", 0, TABANE_STRIPE) == TABANE_E_UNKNOWN_PEER);
    CHECK(tabane_post(a, "c", 3, NULL, "", 0, TABANE_STRIPE) == TABANE_E_UNKNOWN_PEER);
}

static void case_flows(void)
{
    enum { AT_ONCE = 64 };
    tabane_message message;
    for (uint32_t flow = 0; flow < TABANE_FLOWS_MAX; flow += AT_ONCE) {
        for (uint32_t i = 0; i < AT_ONCE; i++)
            CHECK(tabane_send(a, "b", flow + i, NULL, "", 0, TABANE_STRIPE) == 0);
        for (int i = 0; i < AT_ONCE; i++)
            CHECK(tabane_receive(b, LONG_MS, &message, NULL, 0) == 1);
    }
    int more = tabane_send(a, "b", TABANE_FLOWS_MAX, NULL, "", 0, TABANE_STRIPE);
    CHECK(more == TABANE_E_FLOWS);
    CHECK(tabane_send(a, "b", 0, NULL, "", 0, TABANE_STRIPE) == 0);
}

static void *accept_one(void *listener)
{
    tabane_stream *stream;
    int accepted = tabane_accept(listener, TABANE_FOREVER, &stream);
    CHECK(accepted == TABANE_E_CLOSED && stream == NULL);
    return NULL;
}

static void case_shutdown(void)
{
    tabane_listener *listener = listen_at_b();
    tabane_stream *near, *far;
    char buffer[8];
    pair(listener, &near, &far);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, accept_one, listener) == 0);
    CHECK(tabane_write_all(far, "hello", 5) == 0);
    CHECK(tabane_read(near, buffer, sizeof buffer) == 5);
    /* Whether the thread waits already nobody can see; either order must end it. */
    CHECK(tabane_shutdown(b) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(tabane_write(far, "x", 1) == TABANE_E_CLOSED);
    CHECK(tabane_shutdown(b) == 0 && tabane_shutdown(NULL) == TABANE_E_ARGUMENT);
    tabane_stream_close(near);
    tabane_stream_close(far);
    tabane_listener_close(listener);
}

static void case_signals(void)
{
    /* Blocked only now: a thread of the library that takes it would end the process. */
    const struct timespec patience = {.tv_sec = LONG_MS / 1000};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    CHECK(kill(getpid(), SIGUSR1) == 0);
    CHECK(sigtimedwait(&set, NULL, &patience) == SIGUSR1);
}

static void case_fork_port(void)
{
    int begun[2], ends[2];
    char byte;
    CHECK(pipe(begun) == 0 && pipe(ends) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        close(ends[1]);
        CHECK(write(begun[1], "x", 1) == 1);
        /* Until the parent has no more use for it, or has ended. */
        CHECK(read(ends[0], &byte, 1) == 0);
        _exit(0);
    }
    CHECK(read(begun[0], &byte, 1) == 1);
    tabane_close(b);
    /* Ends the process if the fork holds the port. */
    b = open_node("b", ports[1], "a", ports[0]);
    close(ends[1]);
    CHECK(waitpid(child, NULL, 0) == child);
}

static void *reads_then_pauses(void *stream)
{
    char buffer[8];
    CHECK(tabane_read(stream, buffer, sizeof buffer) == 5);
    for (;;)
        pause();
    return NULL;
}

static void case_cancel(void)
{
    tabane_listener *listener = listen_at_b();
    tabane_stream *near, *far;
    pair(listener, &near, &far);
    pthread_t reader;
    void *ended;
    CHECK(pthread_create(&reader, NULL, reads_then_pauses, far) == 0);
    /* So that it waits already, as a rule; what follows must hold in any case. */
    const struct timespec soon = {.tv_nsec = 100000000};
    nanosleep(&soon, NULL);
    CHECK(pthread_cancel(reader) == 0);
    CHECK(tabane_write_all(near, "hello", 5) == 0);
    CHECK(pthread_join(reader, &ended) == 0 && ended == PTHREAD_CANCELED);
    char buffer[8];
    CHECK(tabane_write_all(near, "again", 5) == 0);
    CHECK(tabane_read(far, buffer, sizeof buffer) == 5);
    tabane_stream_close(near);
    tabane_stream_close(far);
    tabane_listener_close(listener);
}

static void case_timeouts(void)
{
    static char much[1 << 20];
    tabane_listener *listener = listen_at_b();
    tabane_stream *near, *far;
    char buffer[8];
    pair(listener, &near, &far);
    CHECK(tabane_read_timeout(near, buffer, sizeof buffer, 0) == TABANE_E_TIMED_OUT);
    CHECK(tabane_read_timeout(near, buffer, sizeof buffer, 50) == TABANE_E_TIMED_OUT);
    CHECK(tabane_set_nonblocking(near, 1) == 0);
    CHECK(tabane_write_all(far, "hello", 5) == 0);
    CHECK(tabane_read_timeout(near, buffer, sizeof buffer, LONG_MS) == 5);
    CHECK(tabane_write_timeout(far, much, 0, LONG_MS) == 0);
    /* Nobody reads any more. */
    ssize_t written;
    while ((written = tabane_write_timeout(far, much, sizeof much, 50)) > 0)
        ;
    CHECK(written == TABANE_E_TIMED_OUT);
    tabane_stream_close(near);
    tabane_stream_close(far);
    tabane_listener_close(listener);
}

static void ignore_alarm(int number)
{
    (void)number;
}

/* An alarm every 50 ms: one that comes just before a call waits does not end it, the next one does. */
static void ring(int milliseconds)
{
    struct sigaction action = {.sa_handler = ignore_alarm, .sa_flags = SA_RESTART};
    const struct timeval every = {.tv_usec = milliseconds * 1000};
    const struct itimerval timer = {.it_interval = every, .it_value = every};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
}

static void case_interruptible(void)
{
    static char much[1 << 20];
    tabane_listener *own, *listener = listen_at_b();
    tabane_stream *near, *far, *another;
    tabane_event event;
    tabane_message message;
    char buffer[8];
    tabane_close(a);
    tabane_options *options = options_of("a", ports[0], "b", ports[1]);
    CHECK(tabane_options_interruptible(options, 1) == 0);
    a = tabane_open(options);
    CHECK(a);
    pair(listener, &near, &far);
    while (tabane_next_event(a, 0, &event) == 1)
        ;
    ring(50);
    CHECK(tabane_read(near, buffer, sizeof buffer) == TABANE_E_INTERRUPTED);
    CHECK(strstr(tabane_error(), "signal"));
    CHECK(tabane_read_timeout(near, buffer, sizeof buffer, LONG_MS) == TABANE_E_INTERRUPTED);
    CHECK(tabane_wait_finished(near, TABANE_FOREVER) == TABANE_E_INTERRUPTED);
    CHECK(tabane_receive(a, TABANE_FOREVER, &message, buffer, 8) == TABANE_E_INTERRUPTED);
    CHECK(tabane_listen(a, SERVICE, &own) == 0);
    CHECK(tabane_accept(own, TABANE_FOREVER, &another) == TABANE_E_INTERRUPTED);
    CHECK(another == NULL);
    tabane_listener_close(own);
    int result;
    while ((result = tabane_write_all(near, much, sizeof much)) == 0)
        ;
    CHECK(result == TABANE_E_INTERRUPTED);
    ring(0);
    /* The stream goes on, and no other node is interrupted. */
    CHECK(tabane_write_all(far, "hello", 5) == 0);
    CHECK(tabane_read(near, buffer, sizeof buffer) == 5);
    ring(50);
    CHECK(tabane_receive(b, 500, &message, buffer, 8) == 0);
    ring(0);
    tabane_stream_close(near);
    tabane_stream_close(far);
    tabane_listener_close(listener);
}

static void case_killed(void)
{
    char buffer[8];
    int begun[2], ends[2];
    tabane_stream *stream;
    CHECK(pipe(begun) == 0 && pipe(ends) == 0);
    tabane_close(a);
    tabane_close(b);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        close(ends[1]);
        b = open_node("b", ports[1], "a", ports[0]);
        CHECK(tabane_accept(listen_at_b(), LONG_MS, &stream) == 0);
        CHECK(write(begun[1], "x", 1) == 1);
        /* Until it is killed, or the parent has ended before. */
        CHECK(read(ends[0], buffer, 1) == 0);
        _exit(0);
    }
    tabane_options *options = options_of("a", ports[0], "b", ports[1]);
    CHECK(tabane_options_peer_timeout(options, 500) == 0);
    a = tabane_open(options);
    CHECK(a);
    CHECK(tabane_connect(a, "b", SERVICE, LONG_MS, &stream) == 0);
    CHECK(read(begun[0], buffer, 1) == 1);
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
    /* Only ends a hang: TABANE_E_TIMED_OUT then. */
    CHECK(tabane_read_timeout(stream, buffer, sizeof buffer, LONG_MS) == TABANE_E_UNREACHABLE);
    CHECK(tabane_write(stream, "x", 1) == TABANE_E_UNREACHABLE);
    CHECK(tabane_wait_finished(stream, LONG_MS) == TABANE_E_UNREACHABLE);
    tabane_stream_close(stream);
    b = open_node("b", ports[1], "a", ports[0]);
}

/* The own name is a peer like others. */
static void case_own(void)
{
    tabane_listener *listener = listen_at_b();
    tabane_stream *near, *far;
    tabane_message message;
    tabane_path paths[TABANE_LINKS_MAX];
    char buffer[8];
    CHECK(tabane_connect(a, "a", SERVICE, LONG_MS, &near) == TABANE_E_REFUSED);
    CHECK(tabane_connect(b, "b", SERVICE, LONG_MS, &near) == 0);
    CHECK(tabane_accept(listener, LONG_MS, &far) == 0);
    CHECK(strcmp(tabane_peer(far), "b") == 0);
    CHECK(!readable(tabane_read_descriptor(near), 0));
    CHECK(tabane_write_all(far, "hello", 5) == 0);
    CHECK(readable(tabane_read_descriptor(near), LONG_MS));
    CHECK(tabane_read(near, buffer, sizeof buffer) == 5);
    CHECK(!readable(tabane_read_descriptor(near), 0));
    CHECK(tabane_finish(near) == 0 && tabane_wait_finished(near, LONG_MS) == 1);
    CHECK(tabane_read(far, buffer, sizeof buffer) == 0);
    CHECK(tabane_send(b, "b", 1, NULL, "x", 1, TABANE_STRIPE) == 0);
    CHECK(tabane_post(b, "b", 1, NULL, "y", 1, TABANE_STRIPE) == 0);
    for (int i = 0; i < 2; i++) {
        CHECK(tabane_receive(b, LONG_MS, &message, buffer, sizeof buffer) == 1);
        CHECK(strcmp(message.from, "b") == 0 && buffer[0] == "xy"[i]);
    }
    CHECK(tabane_paths(b, "b", paths) == 0);
    tabane_stream_close(near);
    tabane_stream_close(far);
    tabane_listener_close(listener);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*holds)(void);
    } cases[] = {
        {"fork", case_fork},           {"poll", case_poll},
        {"poll_others", case_poll_others}, {"ping_pong", case_ping_pong},
        {"arguments", case_arguments}, {"failures", case_failures},
        {"messages", case_messages},   {"signals", case_signals},
        {"flows", case_flows},         {"shutdown", case_shutdown},
        {"fork_port", case_fork_port}, {"cancel", case_cancel},
        {"timeouts", case_timeouts},   {"killed", case_killed},
        {"interruptible", case_interruptible}, {"own", case_own},
    };
    CHECK(argc == 4);
    ports = argv + 2;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (strcmp(argv[1], cases[i].name) == 0) {
            a = open_node("a", argv[2], "b", argv[3]);
            b = open_node("b", argv[3], "a", argv[2]);
            cases[i].holds();
            tabane_close(a);
            tabane_close(b);
            return 0;
        }
    fprintf(stderr, "no case %s\n", argv[1]);
    return 2;
}
