/* What the examples share: a NIC, a VI that is connected to another process's, registered memory, descriptors, and a look at
 * the clock. Any function that fails ends the program and says which. */
#ifndef COMMON_H
#define COMMON_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <vipl.h>

static inline void check(VIP_RETURN returned, const char *what) {
    if (returned != VIP_SUCCESS) {
        fprintf(stderr, "%s: error %d\n", what, (int) returned);
        exit(1);
    }
}
#define CHECK(call) check(call, #call)

/* One end. */
struct end {
    VIP_NIC_HANDLE nic;
    VIP_NIC_ATTRIBUTES attributes;
    VIP_PROTECTION_HANDLE ptag;
    VIP_VI_HANDLE vi;
    /* Descriptors, and bytes behind them, all in one region. */
    VIP_DESCRIPTOR *descriptors;
    unsigned char *bytes;
    VIP_MEM_HANDLE region;
    int is_server;
};

/* Descriptors of each end. The first half of them is for sending. */
#define DESCRIPTORS 128

static inline void open_end(struct end *end, size_t bytes) {
    VIP_MEM_ATTRIBUTES memory;
    VIP_VI_ATTRIBUTES vi;
    size_t head = DESCRIPTORS * sizeof(VIP_DESCRIPTOR);
    void *place;
    CHECK(VipOpenNic("tabane0", &end->nic));
    CHECK(VipQueryNic(end->nic, &end->attributes));
    CHECK(VipCreatePtag(end->nic, &end->ptag));
    place = mmap(NULL, head + bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    end->descriptors = (VIP_DESCRIPTOR *) place;
    end->bytes = (unsigned char *) place + head;
    memory.Ptag = end->ptag;
    memory.EnableRdmaWrite = VIP_TRUE;
    memory.EnableRdmaRead = VIP_TRUE;
    CHECK(VipRegisterMem(end->nic, place, head + bytes, &memory, &end->region));
    memset(&vi, 0, sizeof vi);
    vi.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
    vi.MaxTransferSize = end->attributes.MaxTransferSize;
    vi.Ptag = end->ptag;
    vi.EnableRdmaWrite = VIP_TRUE;
    vi.EnableRdmaRead = VIP_TRUE;
    CHECK(VipCreateVi(end->nic, &vi, NULL, NULL, &end->vi));
}

/* An address of this node, or of the one that is called so, with a discriminator. */
static inline VIP_NET_ADDRESS *address(struct end *end, const char *node, const char *who) {
    VIP_NET_ADDRESS *address = (VIP_NET_ADDRESS *) calloc(1, sizeof *address + 64);
    if (node) {
        CHECK(VipNSGetHostByName(end->nic, (VIP_CHAR *) node, address, 0));
    } else {
        address->HostAddressLen = end->attributes.NicAddressLen;
        memcpy(address->HostAddress, end->attributes.LocalNicAddress, end->attributes.NicAddressLen);
    }
    address->DiscriminatorLen = (VIP_UINT16) strlen(who);
    memcpy(address->HostAddress + address->HostAddressLen, who, strlen(who));
    return address;
}

/* Without a node, waits for a caller; else calls the one that waits there. Receives are to be posted before. */
static inline void connect_end(struct end *end, const char *node, const char *who) {
    VIP_VI_ATTRIBUTES theirs;
    VIP_NET_ADDRESS *here, *there;
    CHECK(VipNSInit(end->nic, NULL));
    end->is_server = !node;
    if (end->is_server) {
        VIP_CONN_HANDLE caller;
        here = address(end, NULL, who);
        there = address(end, NULL, "");
        CHECK(VipConnectWait(end->nic, here, VIP_INFINITE, there, &theirs, &caller));
        CHECK(VipConnectAccept(caller, end->vi));
    } else {
        VIP_RETURN returned;
        here = address(end, NULL, "");
        there = address(end, node, who);
        /* The other process may not wait yet. */
        do
            returned = VipConnectRequest(end->vi, here, there, 10000, &theirs);
        while (returned == VIP_NO_MATCH);
        check(returned, "VipConnectRequest");
    }
    free(here);
    free(there);
}

static inline void close_end(struct end *end) {
    CHECK(VipDisconnect(end->vi));
    CHECK(VipDestroyVi(end->vi));
    CHECK(VipDeregisterMem(end->nic, end->descriptors, end->region));
    CHECK(VipDestroyPtag(end->nic, end->ptag));
    CHECK(VipNSShutdown(end->nic));
    CHECK(VipCloseNic(end->nic));
}

/* A descriptor of so many bytes, which lie `offset` behind the descriptors. */
static inline VIP_DESCRIPTOR *prepare(struct end *end, int index, size_t offset, size_t bytes) {
    VIP_DESCRIPTOR *descriptor = &end->descriptors[index];
    memset(descriptor, 0, sizeof *descriptor);
    descriptor->Control.Control = VIP_CONTROL_OP_SENDRECV;
    descriptor->Control.SegCount = 1;
    descriptor->Control.Length = (VIP_UINT32) bytes;
    descriptor->Data[0].Data.Address = end->bytes + offset;
    descriptor->Data[0].Handle = end->region;
    descriptor->Data[0].Length = (VIP_UINT32) bytes;
    return descriptor;
}

/* One of so many bytes of the other end's memory. */
static inline VIP_DESCRIPTOR *prepare_remote(struct end *end, int index, size_t offset, size_t bytes, uint64_t there,
                                      VIP_MEM_HANDLE region, VIP_UINT16 operation) {
    VIP_DESCRIPTOR *descriptor = &end->descriptors[index];
    memset(descriptor, 0, sizeof *descriptor);
    descriptor->Control.Control = operation;
    descriptor->Control.SegCount = 2;
    descriptor->Control.Length = (VIP_UINT32) bytes;
    descriptor->Segment[0].Remote.Data.AddressBits = there;
    descriptor->Segment[0].Remote.Handle = region;
    descriptor->Segment[1].Local.Data.Address = end->bytes + offset;
    descriptor->Segment[1].Local.Handle = end->region;
    descriptor->Segment[1].Local.Length = (VIP_UINT32) bytes;
    return descriptor;
}

/* The next descriptor that is received, or sent. It looks again and again. */
static inline VIP_DESCRIPTOR *next_received(struct end *end) {
    VIP_DESCRIPTOR *descriptor = NULL;
    VIP_RETURN returned;
    do
        returned = VipRecvDone(end->vi, &descriptor);
    while (returned == VIP_NOT_DONE);
    check(returned, "VipRecvDone");
    return descriptor;
}

static inline VIP_DESCRIPTOR *next_sent(struct end *end) {
    VIP_DESCRIPTOR *descriptor = NULL;
    VIP_RETURN returned;
    do
        returned = VipSendDone(end->vi, &descriptor);
    while (returned == VIP_NOT_DONE);
    check(returned, "VipSendDone");
    return descriptor;
}

static inline double now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec * 1e6 + (double) now.tv_nsec / 1e3;
}

#endif
