/* The fat binaries of tests/images, as nvcc embeds them: one kernel, in the four ways of keeping its PTX. */
#ifndef IMAGES_H
#define IMAGES_H
#define IMAGE(name, file) \
    __asm__(".section .rodata\n.balign 8\n" #name ": .incbin \"" IMAGES "/" file "\"\n.byte 0\n.previous\n"); \
    extern const char name[]
IMAGE(with_cubin, "default.fatbin");
IMAGE(zstd, "ptx-zstd.fatbin");
IMAGE(lz4, "ptx-lz4.fatbin");
IMAGE(text_only, "ptx-text.fatbin");
#endif
