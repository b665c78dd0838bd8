/* Echo over a bundle: `echo FILE serve` on one node, `echo FILE NODE TEXT` on another.
 * FILE is the cluster file; no daemon may have its port. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>

#include <tabane.h>

/* The service, as one would choose a port. */
#define ECHO 7
#define PATIENCE_MS 10000

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, tabane_error());
    return EXIT_FAILURE;
}

static int answer(void *given)
{
    tabane_stream *stream = given;
    char buffer[64 * 1024];
    ssize_t bytes;
    while ((bytes = tabane_read(stream, buffer, sizeof buffer)) > 0)
        if (tabane_write_all(stream, buffer, (size_t)bytes) < 0)
            break;
    if (bytes != 0)
        failed(tabane_peer(stream));
    /* What was written still arrives, and the end behind it. */
    tabane_stream_close(stream);
    return 0;
}

static int serve(tabane_node *node)
{
    tabane_listener *listener;
    tabane_stream *stream;
    if (tabane_listen(node, ECHO, &listener) < 0)
        return failed("listen");
    puts("listening");
    fflush(stdout);
    while (tabane_accept(listener, TABANE_FOREVER, &stream) == 0) {
        thrd_t thread;
        if (thrd_create(&thread, answer, stream) == thrd_success)
            thrd_detach(thread);
        else
            tabane_stream_close(stream);
    }
    failed("accept");
    tabane_listener_close(listener);
    return EXIT_FAILURE;
}

static int ask(tabane_node *node, const char *peer, const char *text)
{
    tabane_stream *stream;
    if (tabane_connect(node, peer, ECHO, PATIENCE_MS, &stream) < 0)
        return failed(peer);
    int result = EXIT_FAILURE;
    char buffer[4096];
    ssize_t bytes = -1;
    if (tabane_write_all(stream, text, strlen(text)) == 0 && tabane_finish(stream) == 0)
        while ((bytes = tabane_read(stream, buffer, sizeof buffer)) > 0)
            fwrite(buffer, 1, (size_t)bytes, stdout);
    if (bytes == 0) {
        putchar('\n');
        result = EXIT_SUCCESS;
    } else {
        failed(peer);
    }
    tabane_stream_close(stream);
    return result;
}

int main(int argc, char **argv)
{
    int serves = argc == 3 && strcmp(argv[2], "serve") == 0;
    if (!serves && argc != 4) {
        fputs("usage: echo FILE serve | echo FILE NODE TEXT\n", stderr);
        return EXIT_FAILURE;
    }
    tabane_options *options = tabane_options_from_file(argv[1], NULL);
    tabane_node *node = options ? tabane_open(options) : NULL;
    if (!node)
        return failed(argv[1]);
    int result = serves ? serve(node) : ask(node, argv[2], argv[3]);
    tabane_close(node);
    return result;
}
