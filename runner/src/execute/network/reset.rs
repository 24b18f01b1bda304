//! What a firewall answers to TCP that it no longer lets through: segments that reset the connection at both ends (RFC 9293,
//! section 3.5.2). No I/O, no clock.

/// Bytes of the headers of the answer, which have no options.
const IP: usize = 20;
const TCP: usize = 20;
/// The protocol number of TCP.
const PROTOCOL: u8 = 6;
/// Flags of a segment.
const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;

/// What the sender and the receiver of an IPv4 packet get, if it is a segment of TCP that resets nothing itself.
pub(super) fn answers_to(packet: &[u8]) -> Option<[Vec<u8>; 2]> {
    let header = usize::from(*packet.first()? & 0x0f) * 4;
    if packet[0] >> 4 != 4 || *packet.get(9)? != PROTOCOL {
        return None;
    }
    let segment = packet.get(header..).filter(|segment| segment.len() >= TCP)?;
    let word = |at: usize| u32::from_be_bytes([segment[at], segment[at + 1], segment[at + 2], segment[at + 3]]);
    let (sequence, acknowledged, flags) = (word(4), word(8), segment[13]);
    if flags & RST != 0 {
        return None;
    }
    let ends = [[&packet[12..16], &segment[..2]], [&packet[16..20], &segment[2..4]]];
    let payload = segment.len().saturating_sub(usize::from(segment[12] >> 4) * 4);
    let length = payload as u32 + u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0);
    let back = match flags & ACK {
        0 => reset(ends[1], ends[0], 0, Some(sequence.wrapping_add(length))),
        _ => reset(ends[1], ends[0], acknowledged, None),
    };
    Some([back, reset(ends[0], ends[1], sequence, None)])
}

/// One segment from one address and port to another.
fn reset(from: [&[u8]; 2], to: [&[u8]; 2], sequence: u32, acknowledges: Option<u32>) -> Vec<u8> {
    let mut packet = vec![0; IP + TCP];
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&((IP + TCP) as u16).to_be_bytes());
    packet[8] = 64;
    packet[9] = PROTOCOL;
    packet[12..16].copy_from_slice(from[0]);
    packet[16..20].copy_from_slice(to[0]);
    let check = checksum(0, &packet[..IP]);
    packet[10..12].copy_from_slice(&check.to_be_bytes());
    packet[20..22].copy_from_slice(from[1]);
    packet[22..24].copy_from_slice(to[1]);
    packet[24..28].copy_from_slice(&sequence.to_be_bytes());
    packet[28..32].copy_from_slice(&acknowledges.unwrap_or(0).to_be_bytes());
    packet[32] = ((TCP / 4) << 4) as u8;
    packet[33] = RST | if acknowledges.is_some() { ACK } else { 0 };
    // The addresses, the protocol and the length are summed as well.
    let check = checksum(u32::from(PROTOCOL) + TCP as u32, &packet[12..]);
    packet[36..38].copy_from_slice(&check.to_be_bytes());
    packet
}

/// The Internet checksum (RFC 1071) of an even number of bytes.
fn checksum(start: u32, bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let mut sum = start + words.sum::<u32>();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From 10.0.0.1:258 to 10.0.0.2:772, sequence number 1000, acknowledging 5000.
    fn segment(flags: u8, payload: usize) -> Vec<u8> {
        let mut packet = vec![0; 40 + payload];
        packet[0] = 0x45;
        packet[9] = 6;
        packet[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        packet[20..24].copy_from_slice(&[1, 2, 3, 4]);
        packet[24..28].copy_from_slice(&1000_u32.to_be_bytes());
        packet[28..32].copy_from_slice(&5000_u32.to_be_bytes());
        packet[32] = 0x50;
        packet[33] = flags;
        packet
    }

    #[test]
    fn a_segment_is_answered_at_both_ends() {
        let [back, on] = answers_to(&segment(ACK, 7)).unwrap();
        assert_eq!(back[12..24], [10, 0, 0, 2, 10, 0, 0, 1, 3, 4, 1, 2]);
        assert_eq!((&back[24..28], back[33]), (&5000_u32.to_be_bytes()[..], RST));
        assert_eq!(on[12..24], [10, 0, 0, 1, 10, 0, 0, 2, 1, 2, 3, 4]);
        assert_eq!((&on[24..28], on[33]), (&1000_u32.to_be_bytes()[..], RST));
        // The first of a connection has nothing to acknowledge, and counts as a byte.
        let [back, _] = answers_to(&segment(SYN, 0)).unwrap();
        assert_eq!((&back[24..32], back[33]), (&[0, 0, 0, 0, 0, 0, 3, 233][..], RST | ACK));
        assert_eq!(answers_to(&segment(RST, 0)), None);
        let mut other = segment(ACK, 0);
        other[9] = 17;
        assert_eq!(answers_to(&other), None);
        assert_eq!(answers_to(&segment(ACK, 0)[..30]), None);
        assert_eq!(answers_to(&[]), None);
    }

    /// The example of RFC 1071, section 3: its words sum to ddf2.
    #[test]
    fn the_checksum_is_the_internets() {
        assert_eq!(checksum(0, &[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
    }
}
