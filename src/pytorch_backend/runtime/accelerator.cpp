#include <runtime/accelerator.hpp>

#include <runtime/device.hpp>

#if defined(__linux__) && defined(__LP64__)

#include <atomic>
#include <cstring>
#include <string_view>

#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

namespace torch_ocl {
namespace {

// What at::getAccelerator asks: c10::is_privateuse1_backend_registered. PyTorch has no hook for the answer, so the call
// from libtorch_cpu.so to libc10.so is led here, by its entry in the first one's table of addresses.
constexpr std::string_view question = "_ZN3c1033is_privateuse1_backend_registeredEv";

bool is_registered_and_used() { return is_initialized(); }

struct DynamicSection {
    const ElfW(Sym)* symbols = nullptr;
    const char* names = nullptr;
    const ElfW(Rela)* relocations[2] = {};   // of calls and of data
    std::size_t bytes[2] = {};

    DynamicSection(ElfW(Addr) base, const ElfW(Dyn)* entry)
    {
        // glibc has made addresses of these offsets, musl has not.
        const auto at = [base](ElfW(Addr) p) { return p < base ? base + p : p; };
        for (; entry->d_tag != DT_NULL; ++entry)
            switch (entry->d_tag) {
            case DT_SYMTAB: symbols = reinterpret_cast<const ElfW(Sym)*>(at(entry->d_un.d_ptr)); break;
            case DT_STRTAB: names = reinterpret_cast<const char*>(at(entry->d_un.d_ptr)); break;
            case DT_JMPREL: relocations[0] = reinterpret_cast<const ElfW(Rela)*>(at(entry->d_un.d_ptr)); break;
            case DT_PLTRELSZ: bytes[0] = entry->d_un.d_val; break;
            case DT_RELA: relocations[1] = reinterpret_cast<const ElfW(Rela)*>(at(entry->d_un.d_ptr)); break;
            case DT_RELASZ: bytes[1] = entry->d_un.d_val; break;
            default: break;
            }
    }
};

bool write_address(ElfW(Addr) place)
{
    const auto page = static_cast<ElfW(Addr)>(sysconf(_SC_PAGESIZE));
    if (mprotect(reinterpret_cast<void*>(place / page * page), page, PROT_READ | PROT_WRITE) != 0)
        return false;
    auto* slot = reinterpret_cast<void*>(place);
    std::atomic_ref(*static_cast<bool (**)()>(slot)).store(&is_registered_and_used);
    return true;
}

int lead_here(dl_phdr_info* library, std::size_t, void* found)
{
    if (!library->dlpi_name || !std::strstr(library->dlpi_name, "libtorch_cpu.so"))
        return 0;
    for (int i = 0; i < library->dlpi_phnum; ++i) {
        if (library->dlpi_phdr[i].p_type != PT_DYNAMIC)
            continue;
        const auto* entries = reinterpret_cast<const ElfW(Dyn)*>(library->dlpi_addr + library->dlpi_phdr[i].p_vaddr);
        const DynamicSection section(library->dlpi_addr, entries);
        for (int table = 0; table < 2 && section.symbols && section.names; ++table)
            for (std::size_t n = 0; n < section.bytes[table] / sizeof(ElfW(Rela)); ++n) {
                const ElfW(Rela)& relocation = section.relocations[table][n];
                if (question != section.names + section.symbols[ELF64_R_SYM(relocation.r_info)].st_name)
                    continue;
                *static_cast<bool*>(found) = write_address(library->dlpi_addr + relocation.r_offset);
                return 1;
            }
    }
    return 1;
}

}  // namespace

bool leave_accelerator_to_pytorch_until_used()
{
    bool found = false;
    dl_iterate_phdr(lead_here, &found);
    return found;
}

}  // namespace torch_ocl

#else

bool torch_ocl::leave_accelerator_to_pytorch_until_used() { return false; }

#endif
