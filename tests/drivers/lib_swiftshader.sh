# Sourced by tests that run on SwiftShader, a second implementation of Vulkan beside lavapipe.

# Makes it the only device, where it is installed.
use_swiftshader() {
    local library
    library=$(compgen -G '/usr/lib/chromium*/libvk_swiftshader.so' | head -n 1)
    [ -n "$library" ] || return 1
    printf '{"file_format_version": "1.0.0", "ICD": {"library_path": "%s", "api_version": "1.0.5"}}\n' "$library" >swiftshader.json
    export VK_ICD_FILENAMES=$WORK/swiftshader.json VK_DRIVER_FILES=$WORK/swiftshader.json
}
no_swiftshader="it is not here (package chromium-common)"
