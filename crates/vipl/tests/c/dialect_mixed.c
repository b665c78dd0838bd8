/* A program of the dialect that names a descriptor's parts Control and DS[]. It is compiled as C89, C++98 and later. */
#include <stdio.h>
#include <string.h>
#include <vipl.h>

static VIP_DESCRIPTOR place[4];

int main(void) {
    VIP_NIC_HANDLE nic;
    VIP_NIC_ATTRIBUTES nic_attributes;
    VIP_MEM_ATTRIBUTES memory;
    VIP_VI_ATTRIBUTES attributes;
    VIP_MEM_HANDLE region;
    VIP_VI_HANDLE vi;
    VIP_DESCRIPTOR *descriptor, *done;
    char *aligned = (char *) place;
    if (VipOpenNic("/dev/clanvi0", &nic) != VIP_SUCCESS)
        return 1;
    if (VipQueryNic(nic, &nic_attributes) != VIP_SUCCESS)
        return 2;
    memset(&memory, 0, sizeof memory);
    if (VipRegisterMem(nic, (VIP_PVOID) place, sizeof place, &memory, &region) != VIP_SUCCESS)
        return 3;
    memset(&attributes, 0, sizeof attributes);
    attributes.EnableRdmaWrite = VIP_TRUE;
    attributes.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
    attributes.MaxTransferSize = nic_attributes.MaxTransferSize;
    if (VipCreateVi(nic, &attributes, NULL, NULL, &vi) != VIP_SUCCESS)
        return 4;
    while ((VIP_UINT64) aligned % VIP_DESCRIPTOR_ALIGNMENT != 0)
        aligned++;
    descriptor = (VIP_DESCRIPTOR *) aligned;
    descriptor->Control.Control = VIP_CONTROL_OP_SENDRECV | VIP_CONTROL_IMMEDIATE;
    descriptor->Control.ImmediateData = 7;
    descriptor->Control.Length = 8;
    descriptor->Control.SegCount = 1;
    descriptor->Control.Reserved = 0;
    descriptor->Control.Status = 0;
    descriptor->Control.Next.Address = NULL;
    descriptor->DS[0].Local.Data.Address = aligned + 64;
    descriptor->DS[0].Local.Handle = region;
    descriptor->DS[0].Local.Length = 8;
    if (VipPostSend(vi, descriptor, region) != VIP_SUCCESS)
        return 5;
    /* The VI is not connected. */
    if (VipSendWait(vi, VIP_INFINITE, &done) != VIP_DESCRIPTOR_ERROR || done != descriptor)
        return 6;
    if ((done->Control.Status & VIP_STATUS_ERROR_MASK) != VIP_STATUS_DESC_FLUSHED_ERROR)
        return 7;
    if (VipDestroyVi(vi) != VIP_SUCCESS || VipDeregisterMem(nic, (VIP_PVOID) place, region) != VIP_SUCCESS)
        return 8;
    return VipCloseNic(nic) == VIP_SUCCESS ? 0 : 9;
}
