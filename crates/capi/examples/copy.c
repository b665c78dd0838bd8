/* Copies a file over all links at once: `copy FILE receive TARGET` on one node,
 * `copy FILE NODE SOURCE` on another. FILE is the cluster file; no daemon may have its port. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tabane.h>

#define COPY 8
#define CONNECT_MS 10000
#define PATIENCE_MS 60000

static char buffer[256 * 1024];

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, tabane_error());
    return EXIT_FAILURE;
}

static int to_file(tabane_stream *stream, FILE *file)
{
    unsigned long long total = 0;
    ssize_t bytes;
    while ((bytes = tabane_read(stream, buffer, sizeof buffer)) > 0) {
        if (fwrite(buffer, 1, (size_t)bytes, file) != (size_t)bytes) {
            perror("the target");
            return EXIT_FAILURE;
        }
        total += (unsigned long long)bytes;
    }
    if (bytes < 0)
        return failed("read");
    if (fflush(file) != 0) {
        perror("the target");
        return EXIT_FAILURE;
    }
    /* The sender learns that all of it is here by the end of this direction. */
    if (tabane_finish(stream) < 0 || tabane_wait_finished(stream, PATIENCE_MS) < 0)
        return failed("finish");
    printf("received %llu bytes from %s\n", total, tabane_peer(stream));
    return EXIT_SUCCESS;
}

static int receive(tabane_node *node, const char *target)
{
    tabane_listener *listener;
    tabane_stream *stream;
    if (tabane_listen(node, COPY, &listener) < 0)
        return failed("listen");
    puts("listening");
    fflush(stdout);
    int result = EXIT_FAILURE;
    if (tabane_accept(listener, TABANE_FOREVER, &stream) < 0) {
        failed("accept");
    } else {
        FILE *file = fopen(target, "wb");
        if (file) {
            result = to_file(stream, file);
            fclose(file);
        } else {
            perror(target);
        }
        tabane_stream_close(stream);
    }
    tabane_listener_close(listener);
    return result;
}

static int from_file(tabane_stream *stream, FILE *file)
{
    struct timespec began, ended;
    unsigned long long total = 0;
    size_t bytes;
    timespec_get(&began, TIME_UTC);
    while ((bytes = fread(buffer, 1, sizeof buffer, file)) > 0) {
        if (tabane_write_all(stream, buffer, bytes) < 0)
            return failed("write");
        total += bytes;
    }
    if (ferror(file)) {
        perror("the source");
        return EXIT_FAILURE;
    }
    if (tabane_finish(stream) < 0)
        return failed("finish");
    /* The receiver has all of it when it ends its direction. */
    if (tabane_read(stream, buffer, sizeof buffer) < 0)
        return failed("read");
    timespec_get(&ended, TIME_UTC);
    double seconds = (double)(ended.tv_sec - began.tv_sec) +
                     (double)(ended.tv_nsec - began.tv_nsec) * 1e-9;
    printf("sent %llu bytes, %.0f Mb/s\n", total, (double)total * 8e-6 / seconds);
    return EXIT_SUCCESS;
}

static int send(tabane_node *node, const char *peer, const char *source)
{
    tabane_stream *stream;
    FILE *file = fopen(source, "rb");
    if (!file) {
        perror(source);
        return EXIT_FAILURE;
    }
    int result = EXIT_FAILURE;
    if (tabane_connect(node, peer, COPY, CONNECT_MS, &stream) < 0) {
        failed(peer);
    } else {
        result = from_file(stream, file);
        tabane_stream_close(stream);
    }
    fclose(file);
    return result;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fputs("usage: copy FILE receive TARGET | copy FILE NODE SOURCE\n", stderr);
        return EXIT_FAILURE;
    }
    tabane_options *options = tabane_options_from_file(argv[1], NULL);
    tabane_node *node = options ? tabane_open(options) : NULL;
    if (!node)
        return failed(argv[1]);
    int receives = strcmp(argv[2], "receive") == 0;
    int result = receives ? receive(node, argv[3]) : send(node, argv[2], argv[3]);
    tabane_close(node);
    return result;
}
