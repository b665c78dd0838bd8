/* libtabane: a node of a tabane cluster inside of a program. No daemon, no privilege.
 *
 * The thread that waits for something runs the node meanwhile; a helper thread only steps in
 * while none does. Everything but tabane_options may be used from several threads at once; what
 * is being closed or freed must not be in use (tabane_shutdown ends the calls that wait). After fork the node belongs to the parent: in the child
 * every call returns TABANE_E_FORKED (freeing is harmless there). The helper takes no signals. A
 * thread that is cancelled (pthread_cancel) in a call goes on until the call returns.
 *
 * Functions that return int or ssize_t return a negative TABANE_E_... on failure, those that
 * return a pointer NULL; tabane_error() has it in words. No call touches errno on purpose, none
 * returns early for a signal unless tabane_options_interruptible says so. Text is UTF-8 that ends in a zero byte. Times are in milliseconds:
 * 0 looks and does not wait, TABANE_FOREVER waits as long as it takes.
 *
 * Link with -ltabane (pkg-config tabane). C11, C++17. */
#ifndef TABANE_H
#define TABANE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TABANE_NAME_BYTES_MAX 63
#define TABANE_LINKS_MAX 8
#define TABANE_KEY_BYTES 32
#define TABANE_MESSAGE_BYTES_MAX 1048567
/* Numbers of flows that messages to one peer may have, until it starts afresh. */
#define TABANE_FLOWS_MAX 65536
#define TABANE_TEXT_BYTES 192
#define TABANE_FOREVER (-1)

/* ---- errors ---- */

/* What was given cannot be: NULL, text that is not UTF-8, too many links. */
#define TABANE_E_ARGUMENT (-1)
/* The cluster file is at fault, or this machine is none of its nodes. */
#define TABANE_E_FILE (-2)
/* No link can be used now. */
#define TABANE_E_NO_LINK (-3)
/* The system refused something: no descriptors or memory left, a port that is taken. */
#define TABANE_E_SYSTEM (-4)
/* No node of this name is known. */
#define TABANE_E_UNKNOWN_PEER (-5)
/* Nothing listens for the service there. */
#define TABANE_E_REFUSED (-6)
/* Too many wait or are open, here or there; try again. */
#define TABANE_E_BUSY (-7)
/* It did not happen in time. */
#define TABANE_E_TIMED_OUT (-8)
/* The stream is non-blocking, and there is nothing to read, or no room to write. */
#define TABANE_E_WOULD_BLOCK (-9)
/* The peer reset the stream, or started afresh: it is gone. */
#define TABANE_E_RESET (-10)
/* This direction was ended before, or the peer wants no more. */
#define TABANE_E_PIPE (-11)
/* This node listens for the service already. */
#define TABANE_E_IN_USE (-12)
/* A message is longer than TABANE_MESSAGE_BYTES_MAX, or than the buffer for it. */
#define TABANE_E_TOO_LARGE (-13)
/* The node was closed. */
#define TABANE_E_CLOSED (-14)
/* The node belongs to the process that opened it. */
#define TABANE_E_FORKED (-15)
/* A fault of this library, please report it. The node may go on. */
#define TABANE_E_BUG (-16)
/* TABANE_FLOWS_MAX flows of messages to this peer are in use; use one of them. */
#define TABANE_E_FLOWS (-17)
/* A signal handler ran in this thread while the call waited (tabane_options_interruptible). The node
 * goes on, and the call can be made again. */
#define TABANE_E_INTERRUPTED (-18)
/* No link to the peer has worked for as long as tabane_options_peer_timeout says: its process or host
 * has died, or no network leads there. The stream is gone; whether what was written last arrived
 * is not known. */
#define TABANE_E_UNREACHABLE (-19)

/* The last failure of this thread in words; never NULL. Valid until this thread's next one. */
const char *tabane_error(void);

/* ---- nodes ---- */

typedef struct tabane_options tabane_options;
typedef struct tabane_node tabane_node;

/* A node that has links at these addresses ("10.77.0.1", "fd00::1"), the n-th on network n, NULL
 * where it has none; all nodes have the same key. It knows no peer yet. */
tabane_options *tabane_options_new(const char *name, const uint8_t key[TABANE_KEY_BYTES],
                                   const char *const *links, size_t links_count);
/* The same from a cluster file, with all peers in it; which of its nodes this is follows from this
 * machine's addresses if node is NULL. A daemon that runs here has the file's port: choose
 * another one, in all programs that are to find each other. */
tabane_options *tabane_options_from_file(const char *cluster_file, const char *node);
/* UDP port of this node (7577 if nothing else is said), and of the peers that the cluster file names;
 * those of tabane_options_peer have their own. */
int tabane_options_port(tabane_options *options, uint16_t port);
/* One more peer, with its address and port on each network ("10.77.0.2:7577",
 * "[fd00::2]:7577"), NULL where it has none. */
int tabane_options_peer(tabane_options *options, const char *name, const char *const *addresses,
                        size_t addresses_count);
/* Holds this private key (32 random bytes): peers that are told its public one accept nobody else
 * under this node's name. tabane_options_from_file reads the machine's node.key instead. */
int tabane_options_private_key(tabane_options *options,
                               const uint8_t private_key[TABANE_KEY_BYTES]);
/* Accepts nobody but the holder of this public key as the peer of this name, told before. */
int tabane_options_peer_public(tabane_options *options, const char *name,
                               const uint8_t public_key[TABANE_KEY_BYTES]);
/* The public key of a private one. */
int tabane_public_key(const uint8_t private_key[TABANE_KEY_BYTES],
                      uint8_t public_key[TABANE_KEY_BYTES]);
/* Packets in the clear, for trusted wires only; all nodes alike. */
int tabane_options_plain(tabane_options *options);
/* How long a waiting thread looks again instead of sleeping after small traffic: 100 if nothing
 * else is said; 0: never. */
int tabane_options_spin_us(tabane_options *options, uint32_t spin_us);
/* How long tabane_send waits for the peer or for room: 10,000 ms if nothing else is said. */
int tabane_options_timeout(tabane_options *options, int timeout_ms);
/* How long tabane_close waits for what is under way: 5,000 ms if nothing else is said. */
int tabane_options_linger(tabane_options *options, int linger_ms);
/* Breaks the streams to a peer to which no link has worked for so long (TABANE_E_UNREACHABLE), because its
 * process or host has died, or no network leads there: 900,000 ms (15 minutes) if nothing else is said,
 * about as long as TCP tries. TABANE_FOREVER and 0 are never: calls wait until the peer is back. That a
 * link does not work is noticed within a second or so, which comes on top. */
int tabane_options_peer_timeout(tabane_options *options, int timeout_ms);
/* Whether a call that waits returns TABANE_E_INTERRUPTED when a signal handler has run in its thread
 * (whatever SA_RESTART says), as EINTR of system calls: not if nothing else is said. So Ctrl-C reaches
 * Python, whose handlers run when the call has returned. A signal that comes just before the call does not
 * end it. The helper thread then runs the node in place of those that wait, who have to be woken: small
 * messages take longer. tabane_close and tabane_shutdown are never interrupted. */
int tabane_options_interruptible(tabane_options *options, int interruptible);
/* Gives them up without opening a node; NULL is ignored, here and by whatever else frees. */
void tabane_options_free(tabane_options *options);

/* Opens the node, and frees the options in any case. */
tabane_node *tabane_open(tabane_options *options);
/* Ends the node without freeing it, from whatever thread: waits for what is under way and says goodbye
 * to all peers. Calls that wait for anything of the node, and later ones, return TABANE_E_CLOSED. */
int tabane_shutdown(tabane_node *node);
/* Waits for what is under way, says goodbye to all peers and frees the node. Its streams and
 * listeners are to be closed as well, before or after. A process that ends without (exit, a signal) takes
 * with it what was written and has not arrived yet: no kernel sends it afterwards, as TCP's does. What
 * tabane_wait_finished said 1 of has arrived. */
void tabane_close(tabane_node *node);

/* ---- descriptors ----
 *
 * The functions tabane_..._descriptor give a descriptor that poll, select and epoll find readable
 * (POLLIN; never POLLOUT) as long as the call it belongs to has something: use it for
 * nothing else and do not close it. It is the same one each time and closed with what it is of.
 * From the first one on, a helper thread runs the node whenever no thread waits in a call. */

/* ---- streams ---- */

typedef struct tabane_stream tabane_stream;
typedef struct tabane_listener tabane_listener;

/* Opens a stream to a service of a peer (the own name is one like others: that stays in the process)
 * and waits until it is accepted there. 0 and the stream in
 * *stream; on failure NULL is there. */
int tabane_connect(tabane_node *node, const char *peer, uint32_t service, int timeout_ms,
                   tabane_stream **stream);
/* Listens for a service. */
int tabane_listen(tabane_node *node, uint32_t service, tabane_listener **listener);
/* Waits for the next stream. 0 and the stream in *stream; on failure NULL is there. */
int tabane_accept(tabane_listener *listener, int timeout_ms, tabane_stream **stream);
/* Readable while a stream waits to be accepted. */
int tabane_accept_descriptor(tabane_listener *listener);
void tabane_listener_close(tabane_listener *listener);

/* Reads what there is, at least a byte unless it is the end, or bytes is 0: then 0. */
ssize_t tabane_read(tabane_stream *stream, void *buffer, size_t bytes);
/* The same, waiting at most so long, also if the stream is non-blocking: TABANE_E_TIMED_OUT if nothing
 * has come by then. The stream is as it was, and can be read again. */
ssize_t tabane_read_timeout(tabane_stream *stream, void *buffer, size_t bytes, int timeout_ms);
/* Writes what there is room for, at least a byte unless bytes is 0. */
ssize_t tabane_write(tabane_stream *stream, const void *buffer, size_t bytes);
/* The same, waiting at most so long, also if the stream is non-blocking: TABANE_E_TIMED_OUT if there was no
 * room by then, and nothing is written. */
ssize_t tabane_write_timeout(tabane_stream *stream, const void *buffer, size_t bytes,
                             int timeout_ms);
/* Writes all of it. On failure part of it may be written, how much is not told: not for non-blocking
 * streams, nor where signals interrupt what is to go on. */
int tabane_write_all(tabane_stream *stream, const void *buffer, size_t bytes);
/* Ends the writing half: the peer reads the end behind what was written. */
int tabane_finish(tabane_stream *stream);
/* 1 when everything written and the end (tabane_finish) have arrived at the peer, 0 if not in time. */
int tabane_wait_finished(tabane_stream *stream, int timeout_ms);
/* Whether reads and writes return TABANE_E_WOULD_BLOCK instead of waiting. */
int tabane_set_nonblocking(tabane_stream *stream, int nonblocking);
/* How what is written is spread over the links: each packet by the link that delivers it soonest;
 * each by two links, so that no failure of one is felt; mirrored while small, striped in bulk. */
#define TABANE_STRIPE 0
#define TABANE_MIRROR 1
#define TABANE_AUTO 2
int tabane_set_policy(tabane_stream *stream, int policy);
/* The name of the node at the other end; valid as long as the stream. */
const char *tabane_peer(const tabane_stream *stream);
/* Readable while tabane_read has bytes, the end or a failure to return. */
int tabane_read_descriptor(tabane_stream *stream);
/* Readable while tabane_write has room or a failure to return: not from when it took less than it
 * was given until a good part of the room is free again. */
int tabane_write_descriptor(tabane_stream *stream);
/* Gives both halves up: the peer gets an error with this code. */
int tabane_reset(tabane_stream *stream, uint32_t code);
/* Frees the stream. What was written still arrives, and the end behind it. */
void tabane_stream_close(tabane_stream *stream);

/* ---- messages ---- */

typedef struct tabane_message {
    char from[TABANE_NAME_BYTES_MAX + 1];
    /* Messages of one flow arrive in the order of sending. */
    uint32_t flow;
    uint32_t has_tag;
    uint64_t tag;
    /* Its length. */
    size_t bytes;
} tabane_message;

/* Sends a message, also to the own name; waits only for the peer to be there and for room. tag may be NULL. */
int tabane_send(tabane_node *node, const char *peer, uint32_t flow, const uint64_t *tag,
                const void *data, size_t bytes, int policy);
/* Sends a message soon, with those posted before and after it, and waits for nothing: that the peer
 * is not there, or no room, is TABANE_E_TIMED_OUT at once, and it can be posted again. They go at
 * tabane_flush, when 64 KB of them wait, when a thread next waits for something of the node or sends
 * something else, and after a millisecond or two in any case. */
int tabane_post(tabane_node *node, const char *peer, uint32_t flow, const uint64_t *tag,
                const void *data, size_t bytes, int policy);
/* Sends what was posted. */
int tabane_flush(tabane_node *node);
/* Waits for the next message and copies it into the buffer: 1, or 0 if none came in time. One that
 * is longer than the buffer is kept for the next call: TABANE_E_TOO_LARGE, and its length in
 * message->bytes. */
int tabane_receive(tabane_node *node, int timeout_ms, tabane_message *message, void *buffer,
                   size_t bytes);
/* Readable from when a message has come until tabane_receive found none. */
int tabane_receive_descriptor(tabane_node *node);

/* ---- events ---- */

#define TABANE_PEER_UP 1
#define TABANE_PEER_DOWN 2
#define TABANE_LINK_UP 3
#define TABANE_LINK_DOWN 4
#define TABANE_REDUNDANCY_LOST 5
#define TABANE_REDUNDANCY_RESTORED 6
#define TABANE_MESSAGES_BROKEN 7
/* A link changed at the operating system's level: the text says how. */
#define TABANE_LINK_CHANGED 8
/* Events before this one were not kept, since nobody asked for them in time. */
#define TABANE_EVENTS_MISSED 9

typedef struct tabane_event {
    uint32_t kind;
    /* Of TABANE_LINK_UP and TABANE_LINK_DOWN. */
    uint32_t link;
    /* Of TABANE_PEER_UP: 1 if it started afresh, so that its former streams are gone. Of
     * TABANE_PEER_DOWN: 1 if it said goodbye. Of TABANE_MESSAGES_BROKEN: how many messages.
     * Of TABANE_EVENTS_MISSED: how many. */
    uint64_t value;
    /* Empty for TABANE_LINK_CHANGED and TABANE_EVENTS_MISSED. */
    char peer[TABANE_NAME_BYTES_MAX + 1];
    /* All of it in words. */
    char text[TABANE_TEXT_BYTES];
} tabane_event;

/* Waits for the next event: 1, or 0 if there was none in time. The last 1024 are kept;
 * TABANE_EVENTS_MISSED tells of others. */
int tabane_next_event(tabane_node *node, int timeout_ms, tabane_event *event);
/* Readable while there is an event. */
int tabane_event_descriptor(tabane_node *node);

/* ---- figures ---- */

typedef struct tabane_path {
    uint32_t link;
    uint32_t is_up;
    /* These two are 0 before anything is known. */
    double rtt_us;
    /* What it is thought to carry. */
    double rate_bytes_per_s;
    uint64_t bytes_acked;
    uint64_t bytes_received;
    uint64_t packets_lost;
} tabane_path;

/* The paths to a peer: how many there are in the array; none lead to the own name. */
int tabane_paths(tabane_node *node, const char *peer, tabane_path paths[TABANE_LINKS_MAX]);

#ifdef __cplusplus
}
#endif

#endif
