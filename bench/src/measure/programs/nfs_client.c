/* An NFS client in user space, for kernels without one: reads, writes or
 * rewrites a file in blocks with several of them under way at once, as the
 * kernel's client does. On libnfs.
 *
 *   nfs_client write|read|rewrite URL MEGABYTES
 *
 * "rewrite" is bonnie++'s: every block is read, changed and written back in
 * place. What is read is checked against what was written. Exit code 1, and
 * what went wrong on standard error, unless all of it was done. */
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <nfsc/libnfs.h>

enum { BLOCK = 256 * 1024, WINDOW = 16, MEGABYTE = 1024 * 1024 };

static struct nfs_context *nfs;
static struct nfsfh *file;
static uint64_t end, next, done;
static enum { WRITE, READ, REWRITE } task;

struct slot {
    uint64_t offset;
    int is_writing;
    uint64_t *data;
};

static void fail(const char *what) {
    fprintf(stderr, "nfs_client: %s: %s\n", what, nfs_get_error(nfs));
    exit(1);
}

/* Block `offset` as it must be: a number of its own in every place. The first
 * one counts how often the block was rewritten, so it is not compared. */
static uint64_t word(uint64_t offset, int i) {
    return (offset + (uint64_t)i * 8) * 0x9e3779b97f4a7c15ull;
}

static void begin(struct slot *slot);

static void is_done(int status, struct nfs_context *context, void *data, void *private) {
    struct slot *slot = private;
    (void)context;
    if (status != BLOCK) {
        fail(status < 0 ? "a block failed" : "a block came in part");
    }
    if (!slot->is_writing) {
        memcpy(slot->data, data, BLOCK);
        for (int i = 1; i < BLOCK / 8; i++) {
            if (slot->data[i] != word(slot->offset, i)) {
                fail("what was read is not what was written");
            }
        }
        if (task == REWRITE) {
            slot->data[0]++;
            slot->is_writing = 1;
            if (nfs_pwrite_async(nfs, file, slot->offset, BLOCK, slot->data, is_done, slot)) {
                fail("write");
            }
            return;
        }
    }
    done += BLOCK;
    begin(slot);
}

static void begin(struct slot *slot) {
    if (next == end) {
        return;
    }
    slot->offset = next;
    next += BLOCK;
    slot->is_writing = task == WRITE;
    if (task == WRITE) {
        slot->data[0] = 0;
        for (int i = 1; i < BLOCK / 8; i++) {
            slot->data[i] = word(slot->offset, i);
        }
        if (nfs_pwrite_async(nfs, file, slot->offset, BLOCK, slot->data, is_done, slot)) {
            fail("write");
        }
    } else if (nfs_pread_async(nfs, file, slot->offset, BLOCK, is_done, slot)) {
        fail("read");
    }
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: nfs_client write|read|rewrite URL MEGABYTES\n");
        return 2;
    }
    task = !strcmp(argv[1], "write") ? WRITE : !strcmp(argv[1], "read") ? READ : REWRITE;
    end = strtoull(argv[3], NULL, 10) * MEGABYTE;
    nfs = nfs_init_context();
    struct nfs_url *url = nfs_parse_url_full(nfs, argv[2]);
    if (url == NULL) {
        fail("the URL");
    }
    if (nfs_mount(nfs, url->server, url->path)) {
        fail("mount");
    }
    int refused = task == WRITE ? nfs_open2(nfs, url->file, O_RDWR | O_CREAT, 0600, &file)
                                : nfs_open(nfs, url->file, task == READ ? O_RDONLY : O_RDWR, &file);
    if (refused) {
        fail("open");
    }
    static struct slot slots[WINDOW];
    for (int i = 0; i < WINDOW; i++) {
        slots[i].data = malloc(BLOCK);
        begin(&slots[i]);
    }
    while (done < end) {
        struct pollfd pollfd = {.fd = nfs_get_fd(nfs), .events = nfs_which_events(nfs)};
        if (poll(&pollfd, 1, 10000) <= 0) {
            fail("nothing happened for 10 s");
        }
        if (nfs_service(nfs, pollfd.revents) < 0) {
            fail("the connection");
        }
    }
    if (task != READ && nfs_fsync(nfs, file)) {
        fail("commit");
    }
    if (nfs_close(nfs, file)) {
        fail("close");
    }
    return 0;
}
