# Terraform destroys what depends on something before that something. So this, which depends on what it
# protects, goes first, and if it refuses, the rest stays. Terraform's own prevent_destroy cannot be a
# setting, and the provider lifts AWS's protection of an instance without a word when it ends one.
resource "terraform_data" "guard" {
  input            = { what = var.what, protect = var.protect }
  triggers_replace = var.ids

  provisioner "local-exec" {
    when    = destroy
    quiet   = true
    command = self.input.protect ? "echo '${self.input.what} is protected. To destroy or replace it, apply protect = false first.' >&2; exit 1" : ":"
  }
}
