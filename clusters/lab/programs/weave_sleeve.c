/* SPDX-License-Identifier: Apache-2.0 */
/* Weave's sleeve: Ethernet frames captured from a device of the bridge into UDP datagrams to the peer, and back, in user space.
 *
 * usage: weave_sleeve DEVICE OWN-ADDRESS OWN-NAME PEER-ADDRESS PEER-NAME      names are MAC addresses
 *
 * Written after weave 2.8.1 router/sleeve.go and router/non_crypto.go: a datagram is the sender's name, then for each frame the names of the
 * source's and the destination's peer, its length (big endian) and the frame. The router learns which MAC is on this side of the bridge from
 * what it captures, and keeps frames between such MACs to itself (router/mac_cache.go). One frame a datagram here, without encryption; there
 * is one other peer. */
#include "datagram.h"

#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>

#define PORT 6783
#define KERNEL_BUFFER (4 << 20) /* bytes: as much as the machine's limit gives of it */
#define NAME 6
#define HEAD (NAME + 2 * NAME + 2)
#define SHORTEST 14 /* an Ethernet header */
#define MACS 4096   /* a power of two */

static uint64_t here[MACS]; /* MACs on this side, by a hash of them; a later one takes an earlier one's place */

static uint64_t mac_at(const unsigned char *octets)
{
	uint64_t mac = 0;

	for (int i = 0; i < NAME; i++)
		mac = mac << 8 | octets[i];
	return mac;
}

static uint64_t *slot(uint64_t mac)
{
	return &here[(mac ^ mac >> 12 ^ mac >> 24 ^ mac >> 36) & (MACS - 1)];
}

static void read_name(const char *text, unsigned char *name)
{
	if (sscanf(text, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", name, name + 1, name + 2, name + 3, name + 4, name + 5) != NAME) {
		fprintf(stderr, "%s: not a MAC address\n", text);
		exit(2);
	}
}

static int udp_socket(const struct sockaddr_in *local)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), size = KERNEL_BUFFER;

	if (fd < 0)
		fail("socket");
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	if (bind(fd, (const struct sockaddr *)local, sizeof(*local)))
		fail("bind");
	return fd;
}

static int open_device(const char *name)
{
	struct sockaddr_ll where = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = (int)if_nametoindex(name)};
	struct packet_mreq promiscuous = {.mr_ifindex = where.sll_ifindex, .mr_type = PACKET_MR_PROMISC};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), size = KERNEL_BUFFER;

	if (fd < 0 || !where.sll_ifindex)
		fail(name);
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	if (setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &promiscuous, sizeof(promiscuous)))
		fail("promiscuous mode");
	if (bind(fd, (struct sockaddr *)&where, sizeof(where)))
		fail("bind to the device");
	return fd;
}

static unsigned char datagram[HEAD + BUFFER];

static int device_to_udp(int device, int sock, const struct sockaddr_in *peer)
{
	struct sockaddr_ll from;
	socklen_t size = sizeof(from);
	unsigned char *frame = datagram + HEAD;
	ssize_t length = recvfrom(device, frame, BUFFER, 0, (struct sockaddr *)&from, &size);
	uint64_t source, target;

	if (length < 0)
		return went(length, "recv from the device");
	if (from.sll_pkttype == PACKET_OUTGOING || length < SHORTEST) /* what we wrote ourselves */
		return 1;
	source = mac_at(frame + NAME);
	target = mac_at(frame);
	*slot(source) = source;
	if (*slot(target) == target)
		return 1;
	datagram[HEAD - 2] = (unsigned char)(length >> 8);
	datagram[HEAD - 1] = (unsigned char)length;
	went(sendto(sock, datagram, HEAD + length, 0, (const struct sockaddr *)peer, sizeof(*peer)), "sendto");
	return 1;
}

static int udp_to_device(int sock, int device)
{
	static unsigned char packet[HEAD + BUFFER];
	ssize_t length = recv(sock, packet, sizeof(packet), 0);
	unsigned char *next = packet + NAME;

	if (length < 0)
		return went(length, "recv");
	while (packet + length - next >= 2 * NAME + 2) {
		unsigned char *frame = next + 2 * NAME + 2;
		ssize_t size = next[2 * NAME] << 8 | next[2 * NAME + 1];

		if (size < SHORTEST || size > packet + length - frame)
			break;
		*slot(mac_at(frame + NAME)) = 0; /* its source is on the other side */
		went(send(device, frame, size, 0), "send to the device");
		next = frame + size;
	}
	return 1;
}

int main(int argc, char **argv)
{
	struct pollfd waiting[2];
	struct sockaddr_in local, peer;

	if (argc != 6) {
		fprintf(stderr, "usage: %s DEVICE OWN-ADDRESS OWN-NAME PEER-ADDRESS PEER-NAME\n", argv[0]);
		return 2;
	}
	local = endpoint(argv[2], PORT);
	peer = endpoint(argv[4], PORT);
	read_name(argv[3], datagram);
	read_name(argv[3], datagram + NAME);
	read_name(argv[5], datagram + 2 * NAME);
	waiting[0] = (struct pollfd){.fd = open_device(argv[1]), .events = POLLIN};
	waiting[1] = (struct pollfd){.fd = udp_socket(&local), .events = POLLIN};
	puts("ready");
	fflush(stdout);
	for (;;) {
		int active;

		if (poll(waiting, 2, -1) < 0 && errno != EINTR)
			fail("poll");
		do {
			active = device_to_udp(waiting[0].fd, waiting[1].fd, &peer);
			active |= udp_to_device(waiting[1].fd, waiting[0].fd);
		} while (active);
	}
}

/* of the sources that this was made from: setup.py tells by it whether the program is up to date */
__attribute__((used)) static const char sources[] = SOURCES;
